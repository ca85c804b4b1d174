-- ack: delete finished messages of a grouped queue whose leases the caller still has.
--
-- KEYS[1] {name}BACKUP     ZSET    lease key -> deadline, µs since the epoch
-- KEYS[2] {name}CONTEXT    HASH    lease key -> the message as it was pushed
-- KEYS[3] {name}RECEIVES   HASH    lease key -> receive count of redelivered messages
-- KEYS[4] {name}EXTENDED   HASH    lease key -> receipt:deadline of extended leases
-- KEYS[5] {name}DELAYED    ZSET    lease key -> due time, µs since the epoch
-- KEYS[6] {name}COUNTERS   HASH    counts, kept while a client watches; see watch.lua
-- KEYS[7] {name}ERRORS     HASH    lease key -> why deliveries of it failed; see nack.lua
-- KEYS[8] {name}           LIST    ready messages: pushed on the left, taken from the right
-- KEYS[9] {name}HANDOFF    LIST    front of the ready list: messages handed to a blocked consumer
-- KEYS[10] {name}RECORD HASH     the settings of the queue, see record.lua
-- KEYS[11] {name}WAITERS:LOOKS  STRING  exists if a consumer has waited lately
-- KEYS[12] {name}GROUPS:BUSY    HASH    group -> its messages in flight; see groups/pop.lua
-- KEYS[13] {name}GROUPS:PARKED  ZSET    messages moved aside
-- KEYS[14] {name}GROUPS:TURNS   ZSET    group that has parked messages and a free slot -> since, µs
-- KEYS[15] {name}GROUPS:FLIGHT  HASH    lease key -> = or >, place, group
-- KEYS[16] {name}GROUPS:RUNS    ZSET    messages of one group that one call delivered
-- KEYS[17] {name}GROUPS:WOKEN   STRING  the message moved to the list to wake a consumer
-- KEYS[18] {name}GROUPS:RATES   ZSET    group -> µs; see groups/pop.lua
-- KEYS[19] {name}GROUPS:ROOM    LIST    not empty if a consumer may look again
-- KEYS[20] {name}GROUPS:STOPPED HASH    group -> ids of the dead letters that stop it
-- KEYS[21] {name}NOTES     HASH    notes of unique messages and of those on lists; see README.md
--
-- ARGV[1] settled          groups of: receipt, size 1..4000, then size lease keys
--
-- Returns what ack.lua returns.
-- Atomic because a slot of a group must be freed with the message that has it.
-- Cost: O(settled log in-flight). If a consumer waits, it moves one parked message.
-- Roles: consumer, worker, doctor
local backup, context, receives, extended, delayed = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local counters, errors, ready, handoff = KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local record, looks, busy, parked = KEYS[10], KEYS[11], KEYS[12], KEYS[13]
local turns, flight, runs, woken = KEYS[14], KEYS[15], KEYS[16], KEYS[17]
local rates, room, stopped, notes = KEYS[18], KEYS[19], KEYS[20], KEYS[21]
local settled = 1

local SCRIPT = 'ack' -- in errors

-- include: outside

redis.call('HLEN', context)
local has_receives = redis.call('HLEN', receives) > 0
local has_errors = redis.call('HLEN', errors) > 0
local has_notes = redis.call('HLEN', notes) > 0
local has_extended = redis.call('HLEN', extended) > 0
local has_delayed = redis.call('ZCARD', delayed) > 0
local watched = redis.call('HEXISTS', counters, 'since') == 1
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]

-- include: groups/known

-- include: holds, settle, groups/leave

if acked > 0 then
  leave(done)
end
return {acked, unpack(refused)}
