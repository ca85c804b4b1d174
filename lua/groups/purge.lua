-- purge: delete the messages of a grouped queue that were moved aside. THE MESSAGES ARE LOST.
--
-- KEYS[1] {name}GROUPS:BUSY    HASH    group -> its messages in flight; see groups/pop.lua
-- KEYS[2] {name}GROUPS:PARKED  ZSET    messages moved aside
-- KEYS[3] {name}GROUPS:TURNS   ZSET    group that has parked messages and a free slot -> since, µs
-- KEYS[4] {name}GROUPS:FLIGHT  HASH    lease key -> = or >, place, group
-- KEYS[5] {name}GROUPS:RUNS    ZSET    messages of one group that one call delivered
-- KEYS[6] {name}GROUPS:WOKEN   STRING  the message moved to the list to wake a consumer
-- KEYS[7] {name}COUNTERS   HASH    counts, kept while a client watches; see watch.lua
-- KEYS[8] {name}GROUPS:RATES   ZSET    group -> µs; see groups/pop.lua
-- KEYS[9] {name}GROUPS:STOPPED  HASH    group -> ids of the dead letters that stop it
-- KEYS[10] {name}GROUPS:LETTERS HASH    id of such a dead letter -> place, group
--
-- ARGV[1] dead             0|1     1: the dead letters are deleted, too, and stop no group any more
--
-- Returns how many messages were deleted. Call purge.lua afterwards: it deletes those in flight,
-- whose slots are forgotten here. The record stays.
-- Atomic because deleting only some of the keys would leave turns of groups without messages.
-- Cost: O(1); UNLINK frees the memory in the background.
-- Roles: operator, doctor
local busy, parked, turns, flight = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local runs, woken, counters, rates = KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local stopped, letters = KEYS[9], KEYS[10]

if ARGV[1] ~= '0' and ARGV[1] ~= '1' then
  return redis.error_reply('ACKQ_ARGUMENT purge: dead is 0 or 1')
end

-- Check every type first, so that an error means that nothing was deleted.
redis.call('HLEN', stopped)
redis.call('HLEN', letters)
redis.call('HLEN', busy)
redis.call('ZCARD', turns)
redis.call('HLEN', flight)
redis.call('ZCARD', runs)
redis.call('GET', woken)
redis.call('ZCARD', rates)
local deleted = redis.call('ZCARD', parked)
local watched = redis.call('HEXISTS', counters, 'since') == 1

-- include: count_up

redis.call('UNLINK', busy, parked, turns, flight, runs, woken, rates)
if ARGV[1] == '1' then
  redis.call('UNLINK', stopped, letters)
end
count_up('dropped', deleted)
return deleted
