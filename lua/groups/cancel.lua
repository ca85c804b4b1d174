-- groups/cancel: make messages that were moved aside dead letters, with the reason "canceled":
-- chosen ones, or those of a group.
--
-- KEYS[1] {name}NOTES      HASH    notes of unique messages and of those on lists; see README.md
-- KEYS[2] {name}DEAD       STREAM  key, body, reason, count, time, errors of dead letters
-- KEYS[3] {name}ERRORS     HASH    lease key -> why deliveries of it failed; see nack.lua
-- KEYS[4] {name}COUNTERS   HASH    counts, kept while a client watches; see watch.lua
-- KEYS[5] {name}GROUPS:PARKED  ZSET  messages moved aside; see groups/pop.lua
-- KEYS[6] {name}GROUPS:TURNS   ZSET  group that has parked messages -> its turn, µs
--
-- ARGV[1] after            text    a place that an earlier reply ended with; empty: from the first
-- ARGV[2] ids              1..1000 lease keys; or an empty text and a group, as it is in TURNS
--
-- Returns {after, canceled}. after is empty if there are no others. A message that stays parked
-- during all calls is looked at once. Call pick.lua and cancel.lua, too: a message may be on a
-- list, delayed or leased.
-- Atomic because a message must always be in one place, and a group without messages has no turn.
-- Cost: O(500 + log parked): at most 500 messages are looked at, one by one, since one may be
-- long; 50 canceled; 1 MiB of bodies and notes read, plus one message; 72 KiB decoded. The bodies
-- of those that are canceled count twice.
-- Roles: operator, doctor
local notes, dead, errors, counters = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local parked, turns = KEYS[5], KEYS[6]
local after = ARGV[1]

local BODY_BUDGET = 1048576 -- bytes one call may read; the bodies of canceled ones cost double
local SEEN = 500 -- messages one call may look at
local CANCELED = 50 -- messages one call may cancel
local PLACE = 16 -- digits of the place of a message
local HEAD = 521 -- bytes in which the longest id ends; a pattern must not walk a long body

if #ARGV < 2 or #ARGV > 1001 or (ARGV[2] == '' and (#ARGV ~= 3 or ARGV[3] == '')) then
  return redis.error_reply('ACKQ_ARGUMENT groups/cancel: 1..1000 ids')
end
if after ~= '' and not string.find(after, string.rep('%d', PLACE) .. '$') then
  return redis.error_reply('ACKQ_ARGUMENT groups/cancel: after is a place, or empty')
end
local wanted, group = {}, nil
if ARGV[2] == '' then
  group = ARGV[3]
end
for i = 2, #ARGV do
  wanted[ARGV[i]] = true
end

local has_notes = redis.call('HLEN', notes) > 0
redis.call('XLEN', dead)
redis.call('ZCARD', turns)
local has_errors = redis.call('HLEN', errors) > 0
local watched = redis.call('HEXISTS', counters, 'since') == 1
-- include: now, count_up, natural_key, wanted_key, listed_message, groups/from_behind

local found, looked, bytes = {}, 0, 0

-- Look at a message. Return whether the call has room for it.
local function look(member)
  local name = 3 + tonumber(string.sub(member, 1, 3))
  local before, body = decoded, string.sub(member, name + PLACE + 1)
  local key = group and (natural_key(body) or '') or not group and wanted_key(body)
  if (decoded > DECODE_BUDGET and before > 0) or (key and #found == CANCELED) then
    return false
  end
  if key then
    local message = listed_message(key, body)
    message.member, message.head = member, string.sub(member, 1, name)
    found[#found + 1] = message
    bytes = bytes + message.cost
  end
  after, looked, bytes = string.sub(member, 1, name + PLACE), looked + 1, bytes + #member
  return true
end

local function look_through()
  local head = group and string.format('%03d', #group) .. group
  local first, last = head and '[' .. head or '-', head and '(' .. head .. ':' or '+'
  while looked < SEEN and bytes < BODY_BUDGET do
    local from = after == '' and first or from_behind(after)
    local member = redis.call('ZRANGEBYLEX', parked, from, last, 'LIMIT', '0', '1')[1]
    if not member then
      after = ''
      return
    elseif not look(member) then
      return
    end
  end
end

-- The first write frees nothing but counts as freeing: a full server can be emptied in this way.
redis.call('ZREMRANGEBYRANK', parked, 1, 0)
look_through()
if #found == 0 then
  return {after, 0}
end
for _, message in ipairs(found) do
  redis.call('ZREM', parked, message.member)
  bury_listed(message)
  if redis.call('ZLEXCOUNT', parked, '[' .. message.head, '(' .. message.head .. ':') == 0 then
    redis.call('ZREM', turns, string.sub(message.head, 4))
  end
end
count_up('dead:canceled', #found)
listed.write()
names.write()
return {after, #found}
