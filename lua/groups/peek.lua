-- groups/peek: show messages that were moved aside, group by group, each group in its order.
--
-- KEYS[1] {name}GROUPS:PARKED  ZSET    messages moved aside; see groups/pop.lua
-- KEYS[2] {name}GROUPS:WOKEN   STRING  the message moved to the list to wake a consumer
--
-- ARGV[1] after   text             a place that an earlier reply ended with; empty: from the first
-- ARGV[2] wanted  integer 1..1000  messages
-- ARGV[3] group   text             only messages of this group; may be absent
--
-- Returns {after, woken, body, ...}. after is empty if there are no others; woken is what WOKEN
-- has, or empty. A message that stays parked during all calls is returned once.
-- Atomic because it only reads.
-- Cost: O(wanted + log parked), at most 1 MiB of bodies plus one message.
-- Roles: viewer, operator, doctor
local parked, woken = KEYS[1], KEYS[2]
local after, wanted, group = ARGV[1], tonumber(ARGV[2]), ARGV[3]

local BODY_BUDGET = 1048576 -- bytes
local PLACE = 16 -- digits of the place of a message

-- include: outside

if outside(wanted, 1, 1000) or (after ~= '' and not string.find(after, string.rep('%d', PLACE)
  .. '$')) then
  return redis.error_reply('ACKQ_ARGUMENT groups/peek: an argument is out of range')
end

-- include: groups/from_behind

local reply, bytes = {'', redis.call('GET', woken) or ''}, 0
local from, to = '-', '+'
if group then
  local head = string.format('%03d', #group) .. group
  from, to = '[' .. head, '(' .. head .. ':'
end
if after ~= '' then
  from = from_behind(after)
end
-- One by one, because the lengths are known only after reading.
while #reply < wanted + 2 and bytes < BODY_BUDGET do
  local member = redis.call('ZRANGEBYLEX', parked, from, to, 'LIMIT', '0', '1')[1]
  if not member then
    reply[1] = ''
    break
  end
  local place = 3 + tonumber(string.sub(member, 1, 3)) + PLACE
  reply[1], reply[#reply + 1] = string.sub(member, 1, place), string.sub(member, place + 1)
  bytes, from = bytes + #member, from_behind(reply[1])
end
return reply
