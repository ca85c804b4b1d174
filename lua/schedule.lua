-- schedule: store messages that become ready at a later time.
--
-- KEYS[1] {name}CONTEXT    HASH    lease key -> the message as it was pushed
-- KEYS[2] {name}DELAYED    ZSET    lease key -> due time, µs since the epoch
--
-- ARGV[1] clock            delay|at    whether ARGV[2] counts from now or from the epoch
-- ARGV[2] due              integer 0..9007199254740991, µs
-- ARGV[3] messages         1..1000 pairs of lease key and body; empty key: derive one
--
-- Returns the number of messages stored. A taken key is replaced by a derived one. Messages for the
-- same time become ready in the order of the calls, and in the given order, a microsecond apart.
-- Atomic because a body without a due time would never be found.
-- Cost: O(messages log delayed).
-- Roles: scheduler, doctor
local context, delayed = KEYS[1], KEYS[2]
local base, due = ARGV[1], tonumber(ARGV[2])

-- include: outside

if (base ~= 'delay' and base ~= 'at') or outside(due, 0, 9007199254740991)
  or #ARGV < 4 or #ARGV > 2002 or #ARGV % 2 == 1 then
  return redis.error_reply('ACKQ_ARGUMENT schedule: an argument is out of range')
end

-- include: now
if base == 'delay' then
  due = math.min(due + now, 9007199254740991)
end
-- include: score_of, time_of, behind, free_key

local due_text
if base == 'delay' then
  due_text = score_of(due)
else
  due_text = ARGV[2]
  local first = behind(delayed, due, due_text)
  if first > due then
    due, due_text = first, score_of(math.min(first, 9007199254740991))
  end
end
local stored_at = string.format(':%.0f', now)
local scores, bodies, stored = {}, {}, {}
for at = 3, #ARGV, 2 do
  if at > 3 then
    due_text = score_of(math.min(due + (at - 3) / 2, 9007199254740991))
  end
  -- This also checks the type of CONTEXT before the first write.
  local key = free_key(ARGV[at], due_text .. stored_at, stored[ARGV[at]])
  stored[key] = true
  scores[at - 2], scores[at - 1] = due_text, key
  bodies[at - 2], bodies[at - 1] = key, ARGV[at + 1]
end
-- Write the due times first: at maxmemory this write is rejected before anything is stored.
redis.call('ZADD', delayed, unpack(scores))
redis.call('HSET', context, unpack(bodies))
return (#ARGV - 2) / 2
