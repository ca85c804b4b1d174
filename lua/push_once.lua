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

-- include: outside

local messages = (#ARGV - 4) / 3
if not marker or outside(window, 1, 315360000000) or outside(due, 0, 9007199254740991)
  or (when ~= 'now' and when ~= 'front' and when ~= 'delay' and when ~= 'at')
  or (pop_from ~= 'right' and pop_from ~= 'left')
  or outside(messages, 1, 1000) or not KEYS[4 + messages] or KEYS[5 + messages] then
  return redis.error_reply('ACKQ_ARGUMENT push_once: an argument is out of range')
end

-- include: now, score_of, time_of, behind, store

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
