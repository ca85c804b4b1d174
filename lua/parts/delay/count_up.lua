-- Count for those who watch the partition. A field that is no number is left alone.
local function count_up(first, field, number)
  if number > 0 and redis.pcall('HEXISTS', KEYS[first + 8], 'since') == 1 then
    redis.pcall('HINCRBY', KEYS[first + 8], field, number)
  end
end
