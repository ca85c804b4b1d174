-- Needs now, in µs; score_of, time_of.

local GAP = 100 -- µs without a message that a row may have, beside as many as it has messages
local GAPS = 100 -- such gaps that one call passes over

-- Return the first microsecond behind the messages for this time, whose score is text. They are a
-- microsecond apart, in the order of the pushes, because Redis sorts equal scores by key. Some of
-- this row may be gone: canceled, or made ready. Once its time has come, its front may be taken
-- already: look for the rest of it.
local function behind(zset, time, text)
  local last = time
  if time > now then
    if redis.call('ZCOUNT', zset, text, score_of(time + GAP - 1)) == 0 then
      return time
    end
  else
    local head = redis.call('ZRANGEBYSCORE', zset, text, score_of(math.min(time + 1000000, now)),
      'WITHSCORES', 'LIMIT', '0', '2')
    if head[4] and time_of(head[4]) - time_of(head[2]) < GAP then
      last, text = time_of(head[2]), head[2]
    end
  end
  for _ = 1, GAPS do
    local first, width = last, 256
    local count
    repeat
      width = 16 * width
      count = redis.call('ZCOUNT', zset, text, score_of(first + width - 1))
    until 2 * count < width
    -- Only the row itself has messages this close together.
    local tail = redis.call('ZREVRANGEBYSCORE', zset, score_of(first + 2 * count + GAP - 1), text,
      'WITHSCORES', 'LIMIT', '0', '1')
    if not tail[2] then
      return time
    end
    last, text = time_of(tail[2]), tail[2]
    if last <= first + 2 * count then
      break
    end
  end
  return last + 1
end
