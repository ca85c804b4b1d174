-- purge: delete the messages of a grouped queue that were moved aside. THE MESSAGES ARE LOST.
--
-- KEYS[1] {name}COUNTERS   HASH    counts, kept while a client watches; see watch.lua
-- include: groups/keys
--
-- ARGV[1] dead             0|1     1: the dead letters are deleted, too, and stop no group any more
--
-- Returns how many messages were deleted. Call purge.lua afterwards: it deletes those in flight,
-- whose slots are forgotten here. The record stays.
-- Atomic because deleting only some of the keys would leave turns of groups without messages.
-- Cost: O(1); UNLINK frees the memory in the background.
-- Roles: operator, doctor
local counters = KEYS[1]
-- include: groups/bound

if ARGV[1] ~= '0' and ARGV[1] ~= '1' then
  return redis.error_reply('ACKQ_ARGUMENT purge: dead is 0 or 1')
end

local deleted = redis.call('ZCARD', parked)
local watched = redis.call('HEXISTS', counters, 'since') == 1

-- include: groups/read_types, count_up

read_types()
redis.call('UNLINK', busy, parked, turns, flight, runs, woken, rates, room)
if ARGV[1] == '1' then
  redis.call('UNLINK', stopped, letters)
end
count_up('dropped', deleted)
return deleted
