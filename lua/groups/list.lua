-- groups/list: list groups that have messages in flight or moved aside, are stopped or paused, or
-- have limits of their own, some at a time.
--
-- KEYS[1] {name}GROUPS:BUSY    HASH  group -> its messages in flight
-- KEYS[2] {name}GROUPS:PARKED  ZSET  messages moved aside; see groups/pop.lua
-- KEYS[3] {name}GROUPS:TURNS   ZSET  group that has parked messages and a free slot -> since, µs
-- KEYS[4] {name}GROUPS:STOPPED HASH  group -> ids of the dead letters that stop it
-- KEYS[5] {name}GROUPS:LIMITS  HASH  group -> its own limits
-- KEYS[6] {name}GROUPS:PAUSES  ZSET  group -> until when it is paused, µs
--
-- ARGV[1] which   busy|turns|stopped|limits|pauses  groups with messages in flight; of the others,
--                                  those in the key of this name
-- ARGV[2] cursor  text            0, or that of the reply before
-- ARGV[3] wanted  integer 1..100  groups, about
--
-- Returns {now, cursor, group, in flight, parked, since, first, till, limits, ids, group, ...},
-- times in µs since the epoch. The cursor is 0 after the last ones. since: when the group's turn
-- came, 0 if it is not its turn. first: when its first parked message was moved aside, 0 if none is
-- parked or it was not read. till: when its pause ends, or 0. limits: its own in_flight, rate, or
-- empty. ids: of the dead letters that stop it, with spaces between. A group may be returned twice.
-- One that changes between the calls may be left out. Ready messages without a group are left out.
-- Atomic because a group between two keys would be missed.
-- Cost: O(wanted log parked), and one bucket of a hash table. The first messages are read, 1 MiB
-- and one more.
-- Roles: viewer, operator, doctor
local busy, parked, turns, stopped = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local limits, pauses = KEYS[5], KEYS[6]
local which, cursor, wanted = ARGV[1], ARGV[2], tonumber(ARGV[3])

local BODY_BUDGET = 1048576 -- bytes of bodies one call may read
local PLACE = 16 -- digits of a place, which is a time

-- include: outside

if outside(wanted, 1, 100) or not string.find(cursor, '^%d+$') or #cursor > 20 then
  return redis.error_reply('ACKQ_ARGUMENT groups/list: an argument is out of range')
end

local clock = redis.call('TIME')
redis.call('HLEN', busy)
redis.call('ZCARD', parked)
redis.call('ZCARD', turns)
redis.call('HLEN', stopped)
redis.call('HLEN', limits)
redis.call('ZCARD', pauses)

local found
if which == 'busy' then
  found = redis.call('HSCAN', busy, cursor, 'COUNT', wanted)
elseif which == 'stopped' then
  found = redis.call('HSCAN', stopped, cursor, 'COUNT', wanted)
elseif which == 'limits' then
  found = redis.call('HSCAN', limits, cursor, 'COUNT', wanted)
elseif which == 'pauses' then
  found = redis.call('ZSCAN', pauses, cursor, 'COUNT', wanted)
elseif which == 'turns' then
  found = redis.call('ZSCAN', turns, cursor, 'COUNT', wanted)
else
  return redis.error_reply('ACKQ_ARGUMENT groups/list: an argument is out of range')
end
local reply, bytes = {clock[1] * 1000000 + clock[2], found[1]}, 0

-- Return when the first parked message of a group was moved aside, 0 if it is not read.
local function first_place(head, last)
  if bytes >= BODY_BUDGET then
    return 0
  end
  local member = redis.call('ZRANGEBYLEX', parked, '[' .. head, last, 'LIMIT', '0', '1')[1]
  bytes = bytes + #(member or '')
  return member and tonumber(string.sub(member, #head + 1, #head + PLACE)) or 0
end

for i = 1, #found[2], 2 do
  local tag, value = found[2][i], found[2][i + 1]
  local held = which == 'busy' and value or redis.call('HGET', busy, tag)
  if tag ~= '' and (which == 'busy' or not held) then
    local head = string.format('%03d', #tag) .. tag
    local since = which == 'turns' and value or redis.call('ZSCORE', turns, tag)
    local last = '(' .. head .. ':'
    local number = redis.call('ZLEXCOUNT', parked, '[' .. head, last)
    reply[#reply + 1] = tag
    reply[#reply + 1] = tonumber(held or nil) or 0
    reply[#reply + 1] = number
    reply[#reply + 1] = tonumber(since or nil) or 0
    reply[#reply + 1] = number > 0 and first_place(head, last) or 0
    reply[#reply + 1] = tonumber(redis.call('ZSCORE', pauses, tag) or 0)
    reply[#reply + 1] = redis.call('HGET', limits, tag) or ''
    reply[#reply + 1] = redis.call('HGET', stopped, tag) or ''
  end
end
return reply
