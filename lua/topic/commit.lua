-- topic/commit: commit ranges of finished messages, and move the consumer's position.
--
-- KEYS[1] {name}:consumers:<id>  STRING  the consumer's position: the last index committed
-- KEYS[2] {name}:leases:<id>     ZSET    start:end:token -> deadline, µs since the epoch
-- KEYS[3] {name}:ranges:<id>     ZSET    start:end:token -> start; not in leases: committed
--
-- ARGV[1] committed  1..1000 of start:end:token
--
-- Returns {committed, position, position, ...}: how many ranges were committed now, then the
-- positions, from 1, of refused ranges: they went to another reader, or the position was set back.
-- A range that was committed before is neither counted nor refused.
-- Atomic because the position must never pass an uncommitted range.
-- Cost: O(committed log ranges).
local consumer, leases, ranges = KEYS[1], KEYS[2], KEYS[3]
local LAST = 9007199254740991 -- the greatest index that a Lua number holds exactly
local STEPS = 1000 -- ranges one call may move the place over

local function bounds(member)
  local start, stop = string.match(member, '^(%d+):(%d+):')
  return tonumber(start), tonumber(stop)
end

for i = 1, #ARGV do
  if #ARGV > 1000 or not bounds(ARGV[i]) then
    return redis.error_reply('ACKQ_ARGUMENT topic/commit: a range is start:end:token, and a call'
      .. ' takes 1000')
  end
end

-- Check every type before the first write, so that an error means that nothing was done.
local stored = redis.call('GET', consumer)
local place = tonumber(stored or 0)
redis.call('ZCARD', leases)
redis.call('ZCARD', ranges)
if not (place and place >= 0 and place <= LAST and place % 1 == 0) then
  return redis.error_reply('ACKQ_VALUE topic/commit: the place is no index')
end

local function lowest()
  local member = redis.call('ZRANGE', ranges, 0, 0)[1]
  if member then
    return member, bounds(member)
  end
end

-- The ranges must start right after the position. If they do not, a client that uses only the
-- position has set it back or deleted it: then all ranges are void.
local _, first_start = lowest()
if first_start and (not stored or first_start > place + 1) then
  redis.call('UNLINK', leases, ranges)
end

local reply = {0}
for i = 1, #ARGV do
  if redis.call('ZREM', leases, ARGV[i]) == 1 then
    reply[1] = reply[1] + 1
  elseif not redis.call('ZSCORE', ranges, ARGV[i]) then
    local last = select(2, bounds(ARGV[i]))
    if last > place or not stored then
      reply[#reply + 1] = i
    end
  end
end

local before, steps = place, 0
local member, start, stop = lowest()
while member and steps < STEPS and start <= place + 1 do
  if stop > place then
    if redis.call('ZSCORE', leases, member) then
      break
    end
    place = stop
  end
  redis.call('ZREM', leases, member)
  redis.call('ZREM', ranges, member)
  steps = steps + 1
  member, start, stop = lowest()
end
if place ~= before then
  redis.call('SET', consumer, string.format('%.0f', place))
end
return reply
