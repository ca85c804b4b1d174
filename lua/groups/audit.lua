-- audit: compare what a queue with groups knows of them, and mend it.
--
-- KEYS[1] {name}RECORD         HASH    the settings of the queue, see record.lua
-- KEYS[2] {name}GROUPS:BUSY    HASH    group -> its messages in flight; see groups/pop.lua
-- KEYS[3] {name}GROUPS:PARKED  ZSET    messages moved aside
-- KEYS[4] {name}GROUPS:TURNS   ZSET    group that has parked messages and a free slot -> since, µs
-- KEYS[5] {name}GROUPS:FLIGHT  HASH    lease key -> = or >, place, group
-- KEYS[6] {name}GROUPS:RUNS    ZSET    messages of one group that one call delivered
-- KEYS[7] {name}GROUPS:WOKEN   STRING  the message moved to the list to wake a consumer
-- KEYS[8] {name}GROUPS:STOPPED HASH    group -> ids of the dead letters that stop it
-- KEYS[9] {name}GROUPS:LIMITS  HASH    group -> its own limits
--
-- ARGV[1] walk             slots|turns   compare BUSY and RUNS with FLIGHT, or TURNS with PARKED
-- ARGV[2] after            text          where to go on, from the reply before; empty: first
-- ARGV[3] repair           0|1
--
-- Returns {after, problem, group, problem, group, ...}; after is empty when all groups were looked
-- at. Slots are compared only if at most 1,000 messages of groups are in flight. A turn that is
-- missing begins now.
-- Atomic because a message may be taken or settled between two commands.
-- Cost: O(in-flight log in-flight), at most 1,000, and 1,000 groups or so; or 100 groups and 1 MiB
-- of bodies.
-- Roles: operator, doctor
local record, busy, parked, turns = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local flight, runs, woken, stopped, limits = KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local walk, after, repair = ARGV[1], ARGV[2], ARGV[3]

local MOST = 1000 -- messages in flight whose slots are compared; groups that are read at once
local LOOKED_AT = 100 -- groups of one call whose turns are compared
local BODY_BUDGET = 1048576 -- bytes of bodies one call may read
local PLACE = 16 -- digits of the place of a message in the order of its group

if (walk ~= 'slots' and walk ~= 'turns') or (repair ~= '0' and repair ~= '1') then
  return redis.error_reply('ACKQ_ARGUMENT audit: see groups/audit.lua')
end

local limit = tonumber(redis.call('HGET', record, 'in_flight') or 1)
redis.call('HLEN', busy)
redis.call('ZCARD', parked)
redis.call('ZCARD', turns)
redis.call('HLEN', flight)
redis.call('ZCARD', runs)
redis.call('HLEN', stopped)
local has_limits = redis.call('HLEN', limits) > 0
local woken_tag = string.match(redis.call('GET', woken) or '',
  '^[^ ]* [^ ]* %d%d%d(.*)' .. string.rep('%d', PLACE) .. '$')
local reply = {''}
-- The first write frees memory, even if only nothing.
redis.call('ZREMRANGEBYRANK', parked, 1, 0)

local function start_of(tag)
  return string.format('%03d', #tag) .. tag
end

-- Return what a member of PARKED or RUNS begins with; nil if a script has not written it.
local function start_in(member)
  local size = string.match(member, '^%d%d%d')
  local start = size and string.sub(member, 1, 3 + tonumber(size))
  return start and string.find(member, '^' .. string.rep('%d', PLACE), #start + 1) and start
end

-- Return how many messages of a group may be in flight.
local function limit_of(tag)
  local own = has_limits and string.match(redis.call('HGET', limits, tag) or '', '^[1-9]%d*')
  return own and tonumber(own) or limit
end

-- Report a problem of a group; return whether to mend it.
local function report(problem, tag)
  reply[#reply + 1], reply[#reply + 2] = problem, tag
  return repair == '1'
end

local function compare_slot(tag, known, number)
  if (tonumber(known or nil) or 0) ~= number
    and report('wrong number in flight', tag) then
    redis.call('HDEL', busy, tag)
    if number > 0 then
      redis.call('HSET', busy, tag, number)
    end
  end
end

-- Compare the messages in flight of each group with its run. They need not be in one if several may
-- be in flight, or might be before a change.
local function compare_runs(entries, numbers)
  local known = redis.call('HMGET', record, 'changed', 'limited')
  local members, must_run = {}, limit == 1 and not known[1] and not known[2]
  for i = 1, #entries, 2 do
    local tag = string.sub(entries[i + 1], PLACE + 2)
    local member = start_of(tag) .. string.sub(entries[i + 1], 2, PLACE + 1) .. entries[i]
    members[member] = numbers[tag] > 1
    if must_run and members[member] and not redis.call('ZSCORE', runs, member)
      and report('not in its run', tag) then
      redis.call('ZADD', runs, '0', member)
    end
  end
  for _, member in ipairs(redis.call('ZRANGE', runs, '0', tostring(2 * MOST - 1))) do
    local tag = string.sub(start_in(member) or '', 4)
    if not members[member] and report('not in flight', tag) then
      redis.call('ZREM', runs, member)
    end
  end
end

-- Compare the slots of groups, some at a time, with their messages in flight.
local function compare_slots(entries)
  local numbers = {}
  for i = 1, #entries, 2 do
    local tag = string.sub(entries[i + 1], PLACE + 2)
    numbers[tag] = (numbers[tag] or 0) + 1
  end
  if after == '' then
    for tag, number in pairs(numbers) do
      compare_slot(tag, redis.call('HGET', busy, tag), number)
    end
    compare_runs(entries, numbers)
  end
  local found = redis.call('HSCAN', busy, after == '' and '0' or after, 'COUNT', tostring(MOST))
  for i = 1, #found[2], 2 do
    if not numbers[found[2][i]] then
      compare_slot(found[2][i], found[2][i + 1], 0)
    end
  end
  reply[1] = found[1] == '0' and '' or found[1]
end

-- Look for groups that have parked messages and a free slot, but no turn. Stopped ones have none.
local function compare_turns()
  local clock = redis.call('TIME')
  local now, bytes, looked = clock[1] * 1000000 + clock[2], 0, 0
  repeat
    local first = after == '' and '-' or '(' .. after
    local member = redis.call('ZRANGEBYLEX', parked, first, '+', 'LIMIT', '0', '1')[1]
    local start = member and start_in(member)
    local tag = string.sub(start or '', 4)
    after = start and start .. ':' or member == '' and '\0' or member or '' -- a digit follows
    if member and not start then
      report('not a message', '')
    elseif member and tag ~= woken_tag and not redis.call('ZSCORE', turns, tag)
      and (tag == '' or (tonumber(redis.call('HGET', busy, tag) or nil) or 0) < limit_of(tag)
        and redis.call('HEXISTS', stopped, tag) == 0)
      and report('no turn', tag) then
      redis.call('ZADD', turns, string.format('%.0f', now + looked), tag)
    end
    looked, bytes = looked + 1, bytes + #(member or '')
  until after == '' or looked == LOOKED_AT or bytes >= BODY_BUDGET
  reply[1] = after
end

if walk == 'turns' then
  compare_turns()
elseif redis.call('HLEN', flight) <= MOST then
  compare_slots(redis.call('HGETALL', flight))
end
return reply
