-- ack: delete finished messages whose leases the caller still has.
--
-- include: leased_keys
-- KEYS[5] {name}DELAYED    ZSET    lease key -> due time, µs since the epoch
-- KEYS[6] {name}COUNTERS   HASH    counts, kept while a client watches; see watch.lua
-- KEYS[7] {name}ERRORS     HASH    lease key -> why deliveries of it failed; see nack.lua
-- KEYS[8] {name}NOTES      HASH    notes of unique messages and of those on lists; see README.md
-- With groups: KEYS[9] {name} LIST ready messages
-- With groups: KEYS[10] {name}RECORD HASH the settings of the queue, see record.lua
-- include: groups/keys
-- include: groups/waking_keys
--
-- ARGV[1] settled          groups of: receipt, size 1..4000, then size lease keys
--
-- Returns {settled, position, position, ...}: how many were deleted, then the positions, from
-- 1, of refused keys: another consumer has the lease, or the message waits for redelivery.
-- Negative: the key is in neither set. Either this ack was resent after a lost reply, or another
-- consumer settled the message; only the caller knows which.
-- Atomic because a receipt must not become invalid between its check and the deletion.
-- Cost: O(settled log in-flight). With groups it moves one parked message if a consumer waits.
-- Roles: consumer, worker, doctor
local backup, context, receives, extended, delayed = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local counters, errors, notes, settled = KEYS[6], KEYS[7], KEYS[8], 1
local ready, record = KEYS[9], KEYS[10]

local SCRIPT = 'ack' -- in errors

-- include: outside

redis.call('HLEN', context)
local sides = redis.call('EXISTS', receives, extended, delayed, counters, errors, notes)
local watched = sides > 0 and redis.call('HEXISTS', counters, 'since') == 1
local has_side = sides > (watched and 1 or 0)
local has_receives = has_side and redis.call('HLEN', receives) > 0
local has_errors = has_side and redis.call('HLEN', errors) > 0
local has_notes = has_side and redis.call('HLEN', notes) > 0
local has_extended = has_side and redis.call('HLEN', extended) > 0
local has_delayed = has_side and redis.call('ZCARD', delayed) > 0
local leave_groups
if ready then -- the queue has groups
  -- include: groups/waking_bound
  local clock = redis.call('TIME')
  local now = clock[1] * 1000000 + clock[2]
  -- include: groups/known, groups/leave
  leave_groups = leave
end

-- include: holds, settle

if ready and acked > 0 then
  leave_groups(done)
end
return {acked, unpack(refused)}
