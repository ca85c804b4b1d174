-- Needs now, in µs.

-- Return the first microsecond behind the messages for this time. They are a microsecond apart, in
-- the order of the pushes, because Redis sorts equal scores by key. Such a row is at least half
-- full. Once its time has come, its front may be taken already: look for the rest of it.
local function behind(zset, time, text)
  if time > now and redis.call('ZCOUNT', zset, text, text) == 0 then
    return time
  end
  local low, width = time, 4096
  if time <= now then
    local head = redis.call('ZRANGEBYSCORE', zset, text,
      string.format('%.0f', math.min(time + 1000000, now)), 'WITHSCORES', 'LIMIT', '0', '2')
    if head[4] and head[4] - head[2] <= 1 then
      low, text = tonumber(head[2]), head[2]
    end
  end
  while true do
    local count = redis.call('ZCOUNT', zset, text, string.format('%.0f', low + width - 1))
    if 2 * count < width then
      -- Only the row itself has so many messages so close together.
      local last = string.format('%.0f', low + 2 * count)
      local tail = redis.call('ZREVRANGEBYSCORE', zset, last, text, 'WITHSCORES', 'LIMIT', '0', '1')
      return tail[2] and tail[2] + 1 or time
    end
    width = 16 * width
  end
end
