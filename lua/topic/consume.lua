-- topic/consume: commit finished ranges, then read on at a consumer's position.
--
-- KEYS[1] {name}:nextIndex        STRING  the newest index; absent: 0
-- KEYS[2] {name}:firstIndex       STRING  indexes below it were trimmed by count; absent: 1
-- KEYS[3] {name}:consumers:<id>   STRING  the consumer's position: the last index committed
-- KEYS[4] {name}:leases:<id>      ZSET    start:end:token -> deadline, µs since the epoch
-- KEYS[5] {name}:ranges:<id>      ZSET    start:end:token -> start; not in leases: committed
-- KEYS[6..] {name}:messages:<index>  STRING  messages, from guess + 1 upwards; may be absent
--
-- ARGV[1] guess      integer 0..2^53-1        the index before the first key of a message
-- ARGV[2] wanted     integer 1..1000          messages
-- ARGV[3] timeout    integer 0..43200000000   µs, visibility timeout; 0: committed by the read
-- ARGV[4] token      16 hexadecimal digits    drawn for each call: part of the receipt
-- ARGV[5] skipped    integer 0..2^53-1        from this index to guess nothing is left; 0: none
-- ARGV[6] committed  0..1000 of start:end:token
--
-- Returns {'ok', refused, newest, start, end, deadline, body, body, ...}: the caller has indexes
-- start to end; the bodies belong to the last of them;
-- {'moved', refused, newest, start}: the keys do not cover start, the next index;
-- {'missing', refused, newest, start, stop, first}: start is gone, and all below first; the range
-- to skip ends at stop; {'empty', refused, newest, wait}: wait µs until a lease ends, or -1;
-- {'ahead', refused, newest, place}: the position is beyond the topic; {'unsubscribed',
-- refused}; {'again', refused}: this call's budget is spent. refused lists, from 1, the
-- committed ranges that went to another reader. Except for 'ok', nothing was read; the commits are
-- done in any case.
-- Atomic because choosing a range, reading it and moving the position must never be seen apart.
-- Cost: O((wanted + committed) log ranges), at most 1 MiB of bodies plus one message.
-- Roles: consumer
local next_index, first_index, consumer, leases, ranges =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local guess, wanted, timeout = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local token, skipped = ARGV[4], tonumber(ARGV[5])
local HEAD = 5 -- keys, and arguments, before the variable ones
local LAST = 9007199254740991 -- the greatest index that a Lua number holds exactly
local BODY_BUDGET = 1048576 -- bytes of bodies one call may read
local STEPS = 1000 -- ranges one call may move the place over
local EXPIRED = 100 -- ended leases among which the lowest is sought

-- include: outside

if outside(guess, 0, LAST) or outside(wanted, 1, 1000) or outside(timeout, 0, 43200000000)
  or outside(skipped, 0, guess) or not string.match(token, '^%x+$') or #token ~= 16
  or #ARGV - HEAD > 1000 or #KEYS - HEAD > 4000 then
  return redis.error_reply('ACKQ_ARGUMENT topic/consume: an argument is out of range; see'
    .. ' topic/consume.lua')
end

local function text_of(index)
  return string.format('%.0f', index)
end

-- include: topic/bounds

for i = HEAD + 1, #ARGV do
  if not string.find(ARGV[i], '^%d+:%d+:') then
    return redis.error_reply('ACKQ_ARGUMENT topic/consume: a range is start:end:token')
  end
end

-- include: now

-- Check every type before the first write, so that an error means that nothing was done.
local newest = tonumber(redis.call('GET', next_index) or 0)
local first = tonumber(redis.call('GET', first_index) or 1)
local stored = redis.call('GET', consumer)
local place = tonumber(stored or 0)
local lowest = redis.call('ZRANGE', ranges, '0', '1')
if outside(newest, 0, LAST) or outside(first, 1, LAST) or outside(place, 0, LAST) then
  return redis.error_reply('ACKQ_VALUE topic/consume: nextIndex, firstIndex or the place is no'
    .. ' index')
end
if first > newest + 1 then
  first = 1 -- somebody started the topic again
end

-- The first write frees memory, even if only nothing: at maxmemory Redis rejects a script whose
-- first write may allocate, and no consumer could read a full topic. It also checks the last type.
-- A commit is such a write.
if #ARGV == HEAD then
  redis.call('ZREMRANGEBYRANK', leases, '1', '0')
end

-- The lowest range: its member, start and stop; nil if there is none.
local member, start, stop
local function take_lowest(found)
  lowest = found
  member = lowest[1]
  if member then
    start, stop = bounds(member)
  end
end
take_lowest(lowest)

-- The ranges must start right after the position. If they do not, a client that uses only the
-- position has set it back or deleted it: then all ranges are void.
if member and (not stored or start > place + 1) then
  redis.call('ZCARD', leases) -- the last type to check
  redis.call('UNLINK', leases, ranges)
  take_lowest({})
end

-- Return the positions of ranges that are neither leased under their receipt nor committed; note
-- the ranges that were leased.
local freed = {}
local function settle()
  local refused = {}
  for i = HEAD + 1, #ARGV do
    if redis.call('ZREM', leases, ARGV[i]) == 1 then
      freed[ARGV[i]] = true
    elseif not redis.call('ZSCORE', ranges, ARGV[i]) then
      local last = select(2, bounds(ARGV[i]))
      if last > place or not stored then
        refused[#refused + 1] = i - HEAD
      end
    end
  end
  return refused
end

-- Move the position over committed ranges without a gap. Return false if this call's budget is
-- spent before that.
local function advance()
  local before, steps = place, 0
  while member and steps < STEPS and start <= place + 1 do
    if stop <= place then
      redis.call('ZREM', leases, member)
    elseif not freed[member] and redis.call('ZSCORE', leases, member) then
      break
    end
    place = math.max(place, stop)
    redis.call('ZREM', ranges, member)
    steps = steps + 1
    -- Two are read at a time, so that after the usual only one none is looked for.
    take_lowest(lowest[2] and redis.call('ZRANGE', ranges, '0', '1') or {})
  end
  if place ~= before then
    redis.call('SET', consumer, text_of(place))
  end
  return steps < STEPS
end

local refused = settle()
if stored and not advance() then
  return {'again', refused}
end
if not stored then
  return {'unsubscribed', refused}
end
if place > newest then
  return {'ahead', refused, newest, place}
end

-- Return the next range: the lowest one whose lease ended, else the first undelivered messages.
local function next_range()
  if not member then
    return place + 1, newest
  end
  local ended = redis.call('ZRANGEBYSCORE', leases, '-inf', text_of(now),
    'LIMIT', '0', EXPIRED)
  local old, low, high
  for i = 1, #ended do
    local from, to = bounds(ended[i])
    if not low or from < low then
      old, low, high = ended[i], from, to
    end
  end
  if old then
    return math.max(low, place + 1), high, old
  end
  local highest = redis.call('ZREVRANGE', ranges, '0', '0')[1]
  local _, last = bounds(highest or '')
  return math.max(place, last or 0) + 1, newest
end

local begin, old
begin, stop, old = next_range()
stop = math.min(stop, newest)
if begin > stop then
  local soonest = redis.call('ZRANGE', leases, '0', '0', 'WITHSCORES')[2]
  return {'empty', refused, newest, soonest and math.max(1, tonumber(soonest) - now) or -1}
end
local from = skipped > 0 and guess + 1 or begin
if (skipped > 0 and skipped ~= begin) or from <= guess or from > guess + 1 + #KEYS - HEAD
  or (skipped == 0 and from > guess + #KEYS - HEAD) or guess > stop then
  return {'moved', refused, newest, begin}
end

-- Read up to the first missing message: a range has gaps only at its start.
local function read()
  local bodies, bytes = {}, 0
  local limit = math.min(stop, guess + #KEYS - HEAD, from + wanted - 1)
  -- Read one by one, because a body may have any length.
  for at = from, limit do
    local body = bytes < BODY_BUDGET and redis.call('GET', KEYS[HEAD + at - guess])
    if not body then
      break
    end
    bodies[#bodies + 1] = body
    bytes = bytes + #body
  end
  return bodies
end

local bodies = read()
if #bodies == 0 and (skipped == 0 or from <= stop) then
  return {'missing', refused, newest, begin, stop, first}
end
local last = from + #bodies - 1

-- Add before removing, and leases before ranges: while its slot is moved, Redis refuses a script's
-- access to a key that the script itself has emptied, and a range without a lease is committed.
local function add_range(index, range, deadline)
  if deadline then
    redis.call('ZADD', leases, deadline, range)
  end
  redis.call('ZADD', ranges, index, range)
end

-- Keep the rest of an expired range under a new name, so that the previous reader's receipt is
-- void.
local function replace_old()
  local _, high = bounds(old)
  if last < high then
    local low = text_of(last + 1)
    local rest = low .. ':' .. text_of(high) .. ':' .. string.match(old, '[^:]+$')
    add_range(low, rest, redis.call('ZSCORE', leases, old))
  end
end

local function remove_old()
  redis.call('ZREM', leases, old)
  redis.call('ZREM', ranges, old)
end

local deadline = now + timeout
if old then
  replace_old()
end
if timeout == 0 and begin == place + 1 then
  place = last
  redis.call('SET', consumer, text_of(place))
  if old then
    remove_old()
    take_lowest(redis.call('ZRANGE', ranges, '0', '1'))
    advance()
  end
else
  local low = text_of(begin)
  local given = low .. ':' .. (last == begin and low or text_of(last)) .. ':' .. token
  add_range(low, given, timeout > 0 and text_of(deadline))
  if old then
    remove_old()
  end
end

local reply = {'ok', refused, newest, begin, last, deadline}
for i = 1, #bodies do
  reply[#reply + 1] = bodies[i]
end
return reply
