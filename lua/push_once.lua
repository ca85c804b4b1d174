-- push_once: push a message unless one was pushed under the same marker within the window.
--
-- KEYS[1] {name}                  LIST    ready messages: pushed on the left
-- KEYS[2] {name}CONTEXT           HASH    lease key -> the message as it was pushed
-- KEYS[3] {name}DELAYED           ZSET    lease key -> due time, µs since the epoch
-- KEYS[4] {name}DEDUP:<marker>    STRING  the id that the first push returned; expires
--
-- ARGV[1] window           integer 1..315360000000     ms that the marker lives
-- ARGV[2] id               text, returned to a later push with the same marker
-- ARGV[3] body             bytes
-- ARGV[4] when             now|delay|at    now: onto the ready list
-- ARGV[5] due              integer 0..9007199254740991, µs, from now or from the epoch
-- ARGV[6] key              lease key of a scheduled message; empty: derive one
-- ARGV[7] pop_from         right|left  the end that is popped: push onto the other; default right
--
-- Returns {1, id} if the message was stored, {0, id of the first} if not.
-- Atomic because a marker without its message would lose the message: the message is stored first.
-- Cost: O(1); scheduled O(log delayed).
-- Roles: scheduler, doctor
local ready, context, delayed, marker = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local window, id, body = tonumber(ARGV[1]), ARGV[2], ARGV[3]
local when, due, key, pop_from = ARGV[4], tonumber(ARGV[5]), ARGV[6], ARGV[7] or 'right'

-- Parts: outside
local function outside(number, low, high)
  return not (number and number >= low and number <= high and number % 1 == 0)
end
-- End of parts (edit them in lua/parts)

if outside(window, 1, 315360000000) or outside(due, 0, 9007199254740991) or not key
  or (when ~= 'now' and when ~= 'delay' and when ~= 'at')
  or (pop_from ~= 'right' and pop_from ~= 'left') then
  return redis.error_reply('ACKQ_ARGUMENT push_once: an argument is out of range')
end

local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]

-- Parts: score_of, time_of, behind
-- Return the score of a due time in µs.
local function score_of(time)
  return string.format('%.0f', time)
end

-- Return the due time in µs that a score means.
local function time_of(number)
  return tonumber(number)
end

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
-- End of parts (edit them in lua/parts)

local first = redis.call('GET', marker)
if first then
  -- Write something: WAIT waits for the last write of its connection, and the caller may want to
  -- know that replicas have the first push. PEXPIRE is allowed even if memory is full.
  redis.call('PEXPIRE', marker, math.max(1, redis.call('PTTL', marker)))
  return {0, first}
end
if when == 'now' then
  redis.call(pop_from == 'left' and 'RPUSH' or 'LPUSH', ready, body)
else
  due = when == 'delay' and due + now or behind(delayed, due, score_of(due))
  local due_text = score_of(math.min(due, 9007199254740991))
  if key == '' or string.byte(key) == 0 or redis.call('HEXISTS', context, key) == 1 then
    local derived = 0
    repeat
      derived = derived + 1
      key = '\0' .. due_text .. string.format(':%.0f:%04d', now, derived)
    until redis.call('HEXISTS', context, key) == 0
  end
  redis.call('ZADD', delayed, due_text, key)
  redis.call('HSET', context, key, body)
end
redis.call('SET', marker, id, 'PX', string.format('%.0f', window))
return {1, id}
