-- drain: put messages of a grouped queue that were moved aside back on the ready list.
--
-- KEYS[1] {name}           LIST    ready messages: pushed on the left, taken from the right
-- KEYS[2] {name}GROUPS:PARKED  ZSET    messages moved aside; see groups/pop.lua
-- KEYS[3] {name}GROUPS:TURNS   ZSET    group that has parked messages and a free slot -> since, µs
-- KEYS[4] {name}GROUPS:WOKEN   STRING  the message moved to the list to wake a consumer
-- KEYS[5] {name}HANDOFF    LIST    front of the ready list: messages handed to a blocked consumer
--
-- ARGV[1] wanted           integer 1..1000     messages
--
-- Returns how many were put back. They go to the end that is popped, each group in its order. Stop
-- the consumers first: they would move them aside again, behind others. Messages on HANDOFF come
-- first and are counted too, because those moved aside are older.
-- Atomic because a message must always be either on the list or parked, never both.
-- Cost: O(wanted log parked), at most 1 MiB of bodies plus one message.
-- Roles: operator, doctor
local ready, parked, turns, woken, handoff = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local wanted = tonumber(ARGV[1])

local BODY_BUDGET = 1048576 -- bytes
local PLACE = 16 -- digits

-- include: outside

if outside(wanted, 1, 1000) then
  return redis.error_reply('ACKQ_ARGUMENT drain: wanted is 1..1000')
end

redis.call('LLEN', ready)
redis.call('ZCARD', turns)
redis.call('LLEN', handoff)
local woken_note = redis.call('GET', woken)
-- The first write frees nothing but counts as freeing, so that a full server can be drained.
redis.call('ZREMRANGEBYRANK', parked, 1, 0)
local moved, bytes = 0, 0

-- include: mark

while moved < wanted and bytes < BODY_BUDGET and redis.call('EXISTS', handoff) == 1 do
  bytes = bytes + #redis.call('LMOVE', handoff, ready, 'LEFT', 'RIGHT')
  moved = moved + 1
end
-- The message that was moved to the list to wake a consumer is the first one of its group.
if woken_note and moved < wanted and bytes < BODY_BUDGET then
  local of, since, place = string.match(woken_note, '^([^ ]*) ([^ ]*) (.*)$')
  local body = redis.call('LINDEX', ready, '-1')
  if body and mark(body) == of then
    redis.call('ZADD', parked, '0', place .. body)
    redis.call('RPOP', ready)
    redis.call('ZADD', turns, since, string.sub(place, 4, -PLACE - 1))
  end
  redis.call('DEL', woken)
end
-- The last first: the first message of each group ends nearest to the end that is popped.
while moved < wanted and bytes < BODY_BUDGET do
  local member = redis.call('ZREVRANGE', parked, '0', '0')[1]
  if not member then
    redis.call('DEL', turns, woken)
    break
  end
  local body = string.sub(member, 4 + tonumber(string.sub(member, 1, 3)) + PLACE)
  redis.call('RPUSH', ready, body)
  redis.call('ZREM', parked, member)
  moved = moved + 1
  bytes = bytes + #body
end
return moved
