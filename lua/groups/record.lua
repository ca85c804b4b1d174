-- record: record that a queue has groups, unless it has a record.
--
-- KEYS[1] {name}HELD       STRING  the record, groups:<in flight>:<rate>:<on dead>:<most>:<field>:
--                                  how many messages of a group may be in flight; how many of a
--                                  group may be taken, as count/µs/burst; whether a dead letter
--                                  stops its group, continue or stop; how many messages of the
--                                  queue may be in flight; which field of a JSON object names the
--                                  group. A number is 0, or the field empty, if there is none. A
--                                  queue without groups may have a ZSET of held lists there; one
--                                  popped from the left has another record
-- KEYS[2] {name}BACKUP     ZSET    lease key -> deadline, µs since the epoch
--
-- ARGV[1] wanted           the record
--
-- Returns the record that the queue has now; or 'busy': it has none, and a consumer without groups
-- holds leases or claims now.
-- Atomic because a consumer without groups must take no message between the check and the write.
-- Cost: O(log in-flight).
-- Roles: consumer, worker, operator, doctor
local record, backup = KEYS[1], KEYS[2]
local wanted = ARGV[1]

if not wanted or not string.match(wanted, '^groups:[1-9]%d*:%d+/%d+/%d+:%a+:%d+:') then
  return redis.error_reply('ACKQ_ARGUMENT record: wanted is a record; see groups/record.lua')
end

local clock = redis.call('TIME')
local now = string.format('%.0f', clock[1] * 1000000 + clock[2])
-- A lease that has ended does not count: the next consumer takes its message and gives it a slot.
local leased = redis.call('ZCOUNT', backup, now, '+inf')
if redis.call('TYPE', record).ok == 'string' then
  return redis.call('GET', record)
end
if redis.call('ZCARD', record) + leased > 0 then
  return 'busy'
end
-- The first write frees memory, even if only nothing, so that a full queue can be drained.
redis.call('ZREMRANGEBYRANK', backup, 1, 0)
redis.call('SET', record, wanted)
return wanted
