-- drain: put messages of a grouped queue that were moved aside back on the ready list.
--
-- KEYS[1] {name}           LIST    ready messages: pushed on the left, taken from the right
-- KEYS[2] {name}GROUPS:PARKED  ZSET    messages moved aside; see groups/pop.lua
-- KEYS[3] {name}GROUPS:TURNS   ZSET    group that has parked messages and a free slot -> since, µs
-- KEYS[4] {name}GROUPS:WOKEN   STRING  the message moved to the list to wake a consumer
--
-- ARGV[1] wanted           integer 1..1000     messages
--
-- Returns how many were put back. They go to the end that is popped, each group in its order. Stop
-- the consumers first: they would move them aside again, behind others.
-- Atomic because a message must always be either on the list or parked, never both.
-- Cost: O(wanted log parked), at most 1 MiB of bodies plus one message.
-- Roles: operator, doctor
local ready, parked, turns, woken = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local wanted = tonumber(ARGV[1])

local BODY_BUDGET = 1048576 -- bytes
local PLACE = 16 -- digits

-- Parts: outside
local function outside(number, low, high)
  return not (number and number >= low and number <= high and number % 1 == 0)
end
-- End of parts (edit them in lua/parts)

if outside(wanted, 1, 1000) then
  return redis.error_reply('ACKQ_ARGUMENT drain: wanted is 1..1000')
end

redis.call('LLEN', ready)
redis.call('ZCARD', turns)
redis.call('GET', woken)
-- The first write frees nothing but counts as freeing, so that a full server can be drained.
redis.call('ZREMRANGEBYRANK', parked, 1, 0)
local moved, bytes = 0, 0
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
