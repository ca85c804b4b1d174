-- Needs now, in µs.

-- Return the first microsecond behind the messages for this time. They are a microsecond apart, in
-- the order of the pushes, because Redis sorts equal scores by key. Such a row is at least half
-- full. Once its time has come, its front may be taken already: look for the rest of it.
local function behind(zset, time, text)
  -- Up to 0.1 ms later: the first may be cancelled. Formatting another number would cost more.
  if time > now and redis.call('ZCOUNT', zset, text, string.sub(text, 1, -3) .. '99') == 0 then
    return time
  end
  local low, width = time, 4096
  if time <= now then
    local head = redis.call('ZRANGEBYSCORE', zset, text,
      string.format('%.6f', math.min(time / 1000000 + 1, now / 1000000)), 'WITHSCORES', 'LIMIT',
      '0', '2')
    if head[4] and head[4] - head[2] < 0.0000015 then
      low, text = math.floor(head[2] * 1000000 + 0.5), head[2]
    end
  end
  while true do
    local last = string.format('%.6f', (low + width - 1) / 1000000)
    local count = redis.call('ZCOUNT', zset, text, last)
    if 2 * count < width then
      -- Only the row itself has so many messages so close together.
      last = string.format('%.6f', (low + 2 * count) / 1000000)
      local tail = redis.call('ZREVRANGEBYSCORE', zset, last, text, 'WITHSCORES', 'LIMIT', '0', '1')
      return tail[2] and math.floor(tail[2] * 1000000 + 0.5) + 1 or time
    end
    width = 16 * width
  end
end
