-- forget: delete the record of a queue, unless messages depend on it.
--
-- KEYS[1] {name}RECORD     HASH    the settings of the queue, see record.lua
-- KEYS[2] {name}HELD       ZSET    held list -> µs from which its messages are the queue's
-- KEYS[3] {name}BACKUP     ZSET    lease key -> deadline, µs since the epoch
-- KEYS[4] {name}DELAYED    ZSET    lease key -> due time, µs since the epoch
-- include: groups/keys
--
-- Returns 1 if the queue has no record now; 0 if it has one: of a queue popped from the left while
-- messages are leased, delayed or held; with groups while messages are parked. Otherwise messages
-- in flight lose their slots. The record of another kind than the caller's stays.
-- Atomic because no message may be taken or moved aside between the check and the deletion.
-- Cost: O(1); UNLINK frees the memory in the background.
-- Roles: consumer, operator, doctor
local record, held, backup, delayed = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
-- include: groups/bound

-- include: groups/read_types

local used = redis.call('ZCARD', held) + redis.call('ZCARD', delayed)
  + redis.call('ZCARD', backup) > 0
if busy then
  used = read_types()
end
local kind = redis.call('HGET', record, 'kind')
if kind and (used or kind ~= (busy and 'groups' or 'left')) then
  return 0
end
if kind and busy then
  redis.call('UNLINK', busy, turns, flight, runs, woken, rates, room, stopped, letters,
    limits, pauses)
end
redis.call('UNLINK', record)
return 1
