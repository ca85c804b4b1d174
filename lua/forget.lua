-- forget: delete the record of a queue, unless messages depend on it.
--
-- KEYS[1] {name}RECORD     HASH    the settings of the queue, see record.lua
-- KEYS[2] {name}HELD       ZSET    held list -> µs from which its messages are the queue's
-- KEYS[3] {name}BACKUP     ZSET    lease key -> deadline, µs since the epoch
-- KEYS[4] {name}DELAYED    ZSET    lease key -> due time, µs since the epoch
-- With groups: KEYS[5] {name}GROUPS:PARKED ZSET messages moved aside, see groups/pop.lua
-- With groups: KEYS[6] {name}GROUPS:BUSY HASH group -> its messages in flight
-- With groups: KEYS[7] {name}GROUPS:TURNS ZSET
-- With groups: KEYS[8] {name}GROUPS:FLIGHT HASH
-- With groups: KEYS[9] {name}GROUPS:RUNS ZSET
-- With groups: KEYS[10] {name}GROUPS:WOKEN STRING
-- With groups: KEYS[11] {name}GROUPS:RATES ZSET
-- With groups: KEYS[12] {name}GROUPS:ROOM LIST
-- With groups: KEYS[13] {name}GROUPS:STOPPED HASH group -> ids of dead letters
-- With groups: KEYS[14] {name}GROUPS:LETTERS HASH id of a dead letter -> place, group
--
-- Returns 1 if the queue has no record now; 0 if it has one: of a queue popped from the left while
-- messages are leased, delayed or held; with groups while messages are parked. Otherwise messages
-- in flight lose their slots. The record of another kind than the caller's stays.
-- Atomic because no message may be taken or moved aside between the check and the deletion.
-- Cost: O(1); UNLINK frees the memory in the background.
-- Roles: consumer, operator, doctor
local record, held, backup, delayed = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local parked, busy, turns, flight, runs = KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local woken, rates, room = KEYS[10], KEYS[11], KEYS[12]
local stopped, letters = KEYS[13], KEYS[14]

-- Check every type first, so that an error means that nothing was deleted.
if parked then
  redis.call('HLEN', busy)
  redis.call('ZCARD', turns)
  redis.call('HLEN', flight)
  redis.call('ZCARD', runs)
  redis.call('GET', woken)
  redis.call('ZCARD', rates)
  redis.call('LLEN', room)
  redis.call('HLEN', stopped)
  redis.call('HLEN', letters)
end
local used = redis.call('ZCARD', held) + redis.call('ZCARD', delayed) + redis.call('ZCARD', backup)
if parked then
  used = redis.call('ZCARD', parked)
end
local kind = redis.call('HGET', record, 'kind')
if kind and (used > 0 or kind ~= (parked and 'groups' or 'left')) then
  return 0
end
if kind and parked then
  redis.call('UNLINK', busy, turns, flight, runs, woken, rates, room, stopped, letters)
end
redis.call('UNLINK', record)
return 1
