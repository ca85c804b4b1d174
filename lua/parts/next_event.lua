-- Needs now.

-- Return the µs until the first member of these sets is due, 0 if one is, -1 if they are empty.
local function next_event(...)
  local wait = -1
  for _, zset in ipairs({...}) do
    local first = redis.call('ZRANGE', zset, 0, 0, 'WITHSCORES')
    if first[2] and (wait < 0 or tonumber(first[2]) - now < wait) then
      wait = math.max(0, tonumber(first[2]) - now)
    end
  end
  return wait
end
