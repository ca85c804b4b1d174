-- groups/list: list groups that have messages in flight or moved aside, or are stopped, some at a
-- time.
--
-- KEYS[1] {name}GROUPS:BUSY    HASH  group -> its messages in flight
-- KEYS[2] {name}GROUPS:PARKED  ZSET  messages moved aside; see groups/pop.lua
-- KEYS[3] {name}GROUPS:TURNS   ZSET  group that has parked messages and a free slot -> since, µs
-- KEYS[4] {name}GROUPS:STOPPED HASH  group -> ids of the dead letters that stop it
--
-- ARGV[1] which   busy|turns|stopped  groups with messages in flight; of the others, those whose
--                                  turn it is, or those that are stopped
-- ARGV[2] cursor  text            0, or that of the reply before
-- ARGV[3] wanted  integer 1..100  groups, about
--
-- Returns {now, cursor, group, in flight, parked, since, first, ids, group, ...}, times in µs since
-- the epoch. The cursor is 0 after the last ones. since: when the group's turn came, 0 if it is not
-- its turn. first: when its first parked message was moved aside, 0 if none is parked or it was not
-- read. ids: of the dead letters that stop it, separated by spaces; empty if none does. A group may
-- be returned twice. One that changes between the calls may be left out. Ready messages without a
-- group are left out.
-- Atomic because a group between two keys would be missed.
-- Cost: O(wanted log parked), and one bucket of a hash table. The first messages are read, 1 MiB
-- and one more.
-- Roles: viewer, operator, doctor
local busy, parked, turns, stopped = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local which, cursor, wanted = ARGV[1], ARGV[2], tonumber(ARGV[3])

local BODY_BUDGET = 1048576 -- bytes of bodies one call may read
local PLACE = 16 -- digits of a place, which is a time

-- include: outside

if (which ~= 'busy' and which ~= 'turns' and which ~= 'stopped') or outside(wanted, 1, 100)
  or not string.find(cursor, '^%d+$') or #cursor > 20 then
  return redis.error_reply('ACKQ_ARGUMENT groups/list: an argument is out of range')
end

local clock = redis.call('TIME')
redis.call('ZCARD', parked)

local found
if which == 'busy' then
  found = redis.call('HSCAN', busy, cursor, 'COUNT', wanted)
elseif which == 'stopped' then
  found = redis.call('HSCAN', stopped, cursor, 'COUNT', wanted)
else
  found = redis.call('ZSCAN', turns, cursor, 'COUNT', wanted)
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
    reply[#reply + 1] = redis.call('HGET', stopped, tag) or ''
  end
end
return reply
