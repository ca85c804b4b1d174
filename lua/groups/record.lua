-- record: record that a queue has groups, or delete the record of a queue that needs none.
--
-- KEYS[1] {name}HELD       STRING  groups:<in flight>:<field>, the record: how many messages of a
--                                  group may be in flight, and which field of a JSON object names
--                                  the group. A queue without groups may have a ZSET of held lists
--                                  there; one popped from the left has another record
-- KEYS[2] {name}BACKUP     ZSET    lease key -> deadline, µs since the epoch
-- KEYS[3] {name}GROUPS:BUSY    HASH    group -> its messages in flight; see groups/pop.lua
-- KEYS[4] {name}GROUPS:PARKED  ZSET    messages moved aside
-- KEYS[5] {name}GROUPS:TURNS   ZSET    group that has parked messages and a free slot -> since, µs
-- KEYS[6] {name}GROUPS:FLIGHT  HASH    lease key -> = or >, place, group
-- KEYS[7] {name}GROUPS:RUNS    ZSET    messages of one group that one call delivered
-- KEYS[8] {name}GROUPS:WOKEN   STRING  the message moved to the list to wake a consumer
--
-- ARGV[1] verb             record|forget
-- ARGV[2] wanted           the record to write; with forget, empty
--
-- Returns the record that the queue has now; empty: none. After record, 'busy': there is none, and
-- a consumer that knows no groups holds leases or claims now. forget deletes the record and what is
-- known of messages in flight, unless messages are parked.
-- Atomic because a consumer without groups must take no message between look and record.
-- Cost: O(log in-flight).
-- Roles: consumer, worker, operator, doctor
local record, backup, busy, parked = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local turns, flight, runs, woken = KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local verb, wanted = ARGV[1], ARGV[2]

if (verb ~= 'record' and verb ~= 'forget') or not wanted
  or (verb == 'record') ~= (string.match(wanted, '^groups:[1-9]%d*:.') ~= nil) then
  return redis.error_reply('ACKQ_ARGUMENT record: verb is record, with a record, or forget')
end

local clock = redis.call('TIME')
local now = string.format('%.0f', clock[1] * 1000000 + clock[2])
-- A lease that ended holds nobody up: the next consumer takes its message, and gives it a slot.
local leased = redis.call('ZCOUNT', backup, now, '+inf')
local is_parked = redis.call('ZCARD', parked) > 0
if redis.call('TYPE', record).ok == 'string' then
  local known = redis.call('GET', record)
  if verb == 'forget' and not is_parked and string.find(known, 'groups:', 1, true) == 1 then
    redis.call('UNLINK', record, busy, turns, flight, runs, woken)
    return ''
  end
  return known
end
local claimed = redis.call('ZCARD', record)
if verb == 'forget' then
  return ''
end
if claimed + leased > 0 then
  return 'busy'
end
-- The first write frees memory, even if only nothing, so that a full queue can be drained.
redis.call('ZREMRANGEBYRANK', backup, 1, 0)
redis.call('SET', record, wanted)
return wanted
