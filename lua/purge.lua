-- purge: delete every message of a queue. THE MESSAGES ARE LOST. The counts stay.
--
-- include: queue_keys
-- KEYS[8] {name}DEAD       STREAM  key, body, reason, count, time, errors of dead letters
-- KEYS[9] {name}ERRORS     HASH    lease key -> why deliveries of it failed; see nack.lua
-- KEYS[10] {name}COUNTERS  HASH    counts, kept while a client watches; see watch.lua
-- KEYS[11] {name}NOTES     HASH    notes of unique messages and of those on lists; see README.md
--
-- ARGV[1] dead             0|1     1: the dead letters too
--
-- Returns how many messages were deleted.
-- Atomic because deleting only some of the keys would let deleted messages reappear.
-- Cost: O(1); UNLINK frees the memory in the background.
-- Roles: operator, doctor
local ready, backup, context, handoff = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local receives, extended, delayed, dead, errors = KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local counters, notes = KEYS[10], KEYS[11]

if ARGV[1] ~= '0' and ARGV[1] ~= '1' then
  return redis.error_reply('ACKQ_ARGUMENT purge: dead is 0 or 1')
end
-- Check every type first, so that an error means that nothing was deleted.
redis.call('HLEN', context)
redis.call('HLEN', receives)
redis.call('HLEN', extended)
redis.call('HLEN', errors)
redis.call('HLEN', notes)
local watched = redis.call('HEXISTS', counters, 'since') == 1

-- include: count_up

local dead_letters = redis.call('XLEN', dead)
local leased = redis.call('ZCARD', backup)
local deleted = redis.call('LLEN', ready) + redis.call('LLEN', handoff) + leased
  + redis.call('ZCARD', delayed)
redis.call('UNLINK', ready, backup, context, handoff, receives, extended, delayed, errors, notes)
count_up('dropped', deleted)
count_up('ended', leased)
if ARGV[1] == '1' then
  redis.call('UNLINK', dead)
  count_up('dropped:dead', dead_letters)
  deleted = deleted + dead_letters
end
return deleted
