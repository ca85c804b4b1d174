-- Needs counters, watched: whether anyone watches; nil: look when there is something to count.

-- Count for those who watch. A field that is no number is left alone.
local function count_up(field, number)
  if watched == nil and number > 0 then
    watched = redis.pcall('HEXISTS', counters, 'since') == 1
  end
  if watched and number > 0 then
    redis.pcall('HINCRBY', counters, field, number)
  end
end
