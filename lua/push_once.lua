-- push_once: push messages, each unless one was pushed under the same marker within the window.
--
-- KEYS[1] {name}                  LIST    ready messages: pushed on the left
-- KEYS[2] {name}CONTEXT           HASH    lease key -> the message as it was pushed
-- KEYS[3] {name}DELAYED           ZSET    lease key -> due time, µs since the epoch
-- KEYS[4] {name}HANDOFF           LIST    front of the ready list
-- KEYS[5] {name}DEDUP:<marker>    STRING  the id that the first push returned; expires. More
--                                         follow: one for each message
--
-- ARGV[1] window           integer 1..315360000000     ms that the markers live
-- ARGV[2] when             now|front|delay|at    now: onto the ready list; front: see push_front
-- ARGV[3] due              integer 0..9007199254740991, µs, from now or from the epoch
-- ARGV[4] pop_from         right|left  the end that is popped: push onto the other
-- ARGV[5] messages         1..1000 groups of: id, text, returned to later pushes with the same
--                          marker; body; lease key of a scheduled message, empty to derive one
--
-- Returns {on the list, stored, id, stored, id, ...}. on the list: see push_front. For each message
-- 1 and its id if it was stored, 0 and the id of the first push if not.
-- Atomic because a marker without its message would lose the message: the message is stored first.
-- Cost: O(messages); scheduled O(messages log delayed).
-- Roles: scheduler, doctor
local ready, context, delayed, handoff, marker = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local window, when, due, pop_from = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3]), ARGV[4]

-- Parts: outside
local function outside(number, low, high)
  return not (number and number >= low and number <= high and number % 1 == 0)
end
-- End of parts (edit them in lua/parts)

local messages = (#ARGV - 4) / 3
if not marker or outside(window, 1, 315360000000) or outside(due, 0, 9007199254740991)
  or (when ~= 'now' and when ~= 'front' and when ~= 'delay' and when ~= 'at')
  or (pop_from ~= 'right' and pop_from ~= 'left')
  or outside(messages, 1, 1000) or not KEYS[4 + messages] or KEYS[5 + messages] then
  return redis.error_reply('ACKQ_ARGUMENT push_once: an argument is out of range')
end

local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]

-- Parts: score_of, time_of, behind, store
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

local LATEST_DUE = 9007199254740991 -- µs
-- A consumer that waits wakes up for the ready list alone: that is the front while it is empty.
local to_front = when == 'front' and redis.call('EXISTS', ready) == 1
local on_list, later = 0, 0 -- messages stored on the ready list, and for later

-- Store a message, and return its lease key if it is for later. Messages of one call are a
-- microsecond apart, since Redis sorts equal scores by key.
local function store(key, body)
  if when == 'now' or when == 'front' then
    if to_front then
      redis.call('LPUSH', handoff, body)
    else
      redis.call(pop_from == 'left' and 'RPUSH' or 'LPUSH', ready, body)
      on_list = on_list + 1
    end
    return
  end
  if later == 0 then
    due = when == 'delay' and due + now or behind(delayed, due, score_of(due))
  end
  local due_text = score_of(math.min(due + later, LATEST_DUE))
  later = later + 1
  if key == '' or string.byte(key) == 0 or redis.call('HEXISTS', context, key) == 1 then
    local derived = 0
    repeat
      derived = derived + 1
      key = '\0' .. due_text .. string.format(':%.0f:%04d', now, derived)
    until redis.call('HEXISTS', context, key) == 0
  end
  redis.call('ZADD', delayed, due_text, key)
  redis.call('HSET', context, key, body)
  return key
end
-- End of parts (edit them in lua/parts)

-- Check every type before the first write, so that an error means that nothing was stored.
redis.call('LLEN', ready)
redis.call('LLEN', handoff)
redis.call('HLEN', context)
redis.call('ZCARD', delayed)
local firsts = {} -- marker -> id
for i = 1, messages do
  marker = KEYS[4 + i]
  firsts[marker] = redis.call('GET', marker)
end

local reply = {0}
for i = 1, messages do
  marker = KEYS[4 + i]
  local id, body, key = ARGV[2 + 3 * i], ARGV[3 + 3 * i], ARGV[4 + 3 * i]
  local first = firsts[marker]
  if first then
    -- Write something: WAIT waits for the last write of its connection, and the caller may want to
    -- know that replicas have the first push. PEXPIRE is allowed even if memory is full.
    redis.call('PEXPIRE', marker, math.max(1, redis.call('PTTL', marker)))
  else
    store(key, body)
    redis.call('SET', marker, id, 'PX', string.format('%.0f', window))
    firsts[marker] = id
  end
  reply[2 * i], reply[2 * i + 1] = first and 0 or 1, first or id
end
reply[1] = when == 'front' and on_list or 0
return reply
