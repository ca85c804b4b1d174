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
-- Roles: consumer
local consumer, leases, ranges = KEYS[1], KEYS[2], KEYS[3]
local LAST = 9007199254740991 -- the greatest index that a Lua number holds exactly
local STEPS = 1000 -- ranges one call may move the place over

-- include: outside, topic/bounds

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
if outside(place, 0, LAST) then
  return redis.error_reply('ACKQ_VALUE topic/commit: the place is no index')
end

-- Return the range of a rank, from 0: its member, start and stop.
local function range(rank)
  local member = redis.call('ZRANGE', ranges, rank, rank)[1]
  if member then
    return member, bounds(member)
  end
end

-- The ranges must start right after the position. If they do not, a client that uses only the
-- position has set it back or deleted it: then all ranges are void.
local member, start, stop = range(0)
local is_void = member and (not stored or start > place + 1)

-- Note what to remove, and write last and once to each key: while its slot is moved, Redis refuses
-- a script's access to a key that the script itself has emptied, and it would end halfway.
local reply, freed, unleased, passed = {0}, {}, {}, {}
for i = 1, #ARGV do
  local given = ARGV[i]
  if not is_void and not freed[given] and redis.call('ZSCORE', leases, given) then
    reply[1] = reply[1] + 1
    freed[given] = true
    unleased[#unleased + 1] = given
  elseif is_void or not redis.call('ZSCORE', ranges, given) then
    local last = select(2, bounds(given))
    if last > place or not stored then
      reply[#reply + 1] = i
    end
  end
end

local before = place
while not is_void and member and #passed < STEPS and start <= place + 1 do
  if stop > place then
    if not freed[member] and redis.call('ZSCORE', leases, member) then
      break
    end
    place = stop
  end
  passed[#passed + 1] = member
  member, start, stop = range(#passed)
end

if is_void then
  redis.call('UNLINK', leases, ranges)
end
if #passed > 0 then
  -- Below the position, ranges may still be leased.
  for i = 1, #passed do
    unleased[#unleased + 1] = passed[i]
  end
  redis.call('ZREM', ranges, unpack(passed))
end
if #unleased > 0 then
  redis.call('ZREM', leases, unpack(unleased))
end
if place ~= before then
  redis.call('SET', consumer, string.format('%.0f', place))
end
return reply
