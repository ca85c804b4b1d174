-- resume: let a stopped group go on without its dead letters, which stay where they are.
--
-- KEYS[1] {name}          LIST    ready messages: pushed on the left, taken from the right
-- KEYS[2] {name}HANDOFF   LIST    front of the ready list: messages handed to a blocked consumer
-- KEYS[3] {name}RECORD HASH     the settings of the queue, see record.lua
-- KEYS[4] {name}WAITERS:LOOKS STRING  exists if a consumer has waited lately
-- KEYS[5] {name}GROUPS:BUSY HASH    group -> its messages in flight; see groups/pop.lua
-- KEYS[6] {name}GROUPS:PARKED ZSET    messages moved aside
-- KEYS[7] {name}GROUPS:TURNS ZSET    group that has parked messages and a free slot -> since, µs
-- KEYS[8] {name}GROUPS:FLIGHT HASH    lease key -> = or >, place, group
-- KEYS[9] {name}GROUPS:RUNS ZSET    messages of one group that one call delivered
-- KEYS[10] {name}GROUPS:WOKEN STRING  the message moved to the list to wake a consumer
-- KEYS[11] {name}GROUPS:RATES ZSET    group -> µs; see groups/pop.lua
-- KEYS[12] {name}GROUPS:ROOM LIST    not empty if a consumer may look again
-- KEYS[13] {name}GROUPS:STOPPED HASH    group -> ids of the dead letters that stop it
-- KEYS[14] {name}GROUPS:LETTERS HASH    id of such a dead letter -> place, group
--
-- ARGV[1] group            its name; of one over 512 bytes, \1 and its SHA1
--
-- Returns how many dead letters stopped the group. If they are redriven later, their messages come
-- behind those that are there then.
-- Atomic because a group must not be stopped by a dead letter that has no place in it any more.
-- Cost: O(dead letters of the group + log parked). If a consumer waits, one parked message moves.
-- Roles: operator, doctor
local ready, handoff, record, looks, busy = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local parked, turns, flight, runs = KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local woken, rates, room = KEYS[10], KEYS[11], KEYS[12]
local stopped, letters = KEYS[13], KEYS[14]
local group = ARGV[1]

if not group or group == '' then
  return redis.error_reply('ACKQ_ARGUMENT resume: which group?')
end

local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]

-- include: groups/known
redis.call('HLEN', letters)

-- include: mark, groups/slots, groups/wake

local ids = {}
for id in string.gmatch(redis.call('HGET', stopped, group) or '', '[^ ]+') do
  ids[#ids + 1] = id
end
-- The first write frees memory, so that a group can go on at maxmemory.
if redis.call('HDEL', stopped, group) == 1 then
  redis.call('HDEL', letters, unpack(ids))
  are_stopped = redis.call('HLEN', stopped) > 0
  turn(group)
  wake()
end
return #ids
