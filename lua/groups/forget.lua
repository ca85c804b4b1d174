-- forget: delete the record that a queue has groups, unless messages are parked.
--
-- KEYS[1] {name}HELD       STRING  the record of the groups, see groups/record.lua
-- KEYS[2] {name}GROUPS:BUSY    HASH    group -> its messages in flight; see groups/pop.lua
-- KEYS[3] {name}GROUPS:PARKED  ZSET    messages moved aside
-- KEYS[4] {name}GROUPS:TURNS   ZSET    group that has parked messages and a free slot -> since, µs
-- KEYS[5] {name}GROUPS:FLIGHT  HASH    lease key -> = or >, place, group
-- KEYS[6] {name}GROUPS:RUNS    ZSET    messages of one group that one call delivered
-- KEYS[7] {name}GROUPS:WOKEN   STRING  the message moved to the list to wake a consumer
-- KEYS[8] {name}GROUPS:RATES   ZSET    group -> µs; see groups/pop.lua
-- KEYS[9] {name}GROUPS:ROOM    LIST    not empty if a consumer may look again
-- KEYS[10] {name}GROUPS:STOPPED HASH    group -> ids of the dead letters that stop it
-- KEYS[11] {name}GROUPS:LETTERS HASH    id of such a dead letter -> place, group
--
-- Returns the record that the queue has now; empty: none. Messages in flight lose their slots.
-- Atomic because no message may be moved aside between the check and the deletion.
-- Cost: O(1); UNLINK frees the memory in the background.
-- Roles: operator, doctor
local record, busy, parked, turns = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local flight, runs, woken, rates, room = KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local stopped, letters = KEYS[10], KEYS[11]

if redis.call('TYPE', record).ok ~= 'string' then
  return ''
end
local known = redis.call('GET', record)
if redis.call('ZCARD', parked) > 0 or string.find(known, 'groups:', 1, true) ~= 1 then
  return known
end
redis.call('HLEN', busy)
redis.call('ZCARD', turns)
redis.call('HLEN', flight)
redis.call('ZCARD', runs)
redis.call('GET', woken)
redis.call('HLEN', stopped)
redis.call('HLEN', letters)
redis.call('ZCARD', rates)
redis.call('LLEN', room)
redis.call('UNLINK', record, busy, turns, flight, runs, woken, rates, room,
  stopped, letters)
return ''
