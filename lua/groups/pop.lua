-- pop: settle finished messages of a grouped queue, then take the next ones, each under a lease.
--
-- include: queue_keys
-- KEYS[8] {name}DEAD       STREAM  key, body, reason, count, time, errors of dead letters
-- KEYS[9] {name}PAUSED     STRING  exists while the queue is paused
-- KEYS[10] {name}RECORD    HASH    the settings of the queue, and the last place in PARKED
-- KEYS[11] {name}COUNTERS  HASH    counts, kept while a client watches; see watch.lua
-- KEYS[12] {name}ERRORS    HASH    lease key -> why deliveries of it failed; see nack.lua
-- KEYS[13] {name}WAITERS:LOOKS  STRING  see pop.lua; exists if a consumer has waited lately
-- KEYS[14] {name}NOTES     HASH    notes of unique messages and of those on lists; see README.md
-- include: groups/keys
-- include: pop_arguments
-- ARGV[6] expected         the record as the caller knows it: the values of its fields in the order
--                          of record.lua, separated by spaces
-- ARGV[7] waited           integer -1..9007199254740991  µs for which the consumer has waited just
--                                                       before; -1: it does not wait
-- ARGV[8] settled          groups of: receipt, size 1..4000, then size lease keys; may be absent
--
-- A group has at most as many messages in flight as the record says. If that is one, a call may
-- deliver several of a group, in order; the group is then busy until all are settled. Messages of a
-- busy group are moved aside, in order, and groups that may go on take turns. A rate is a limit of
-- deliveries: a message that came back waits in DELAYED until its group's rate permits one more.
-- Returns what pop.lua returns, but never 'held'. 'last' also means that nothing is parked. Or, if
-- the queue has as many leases as the record permits, {'limited', refused, wait, waiters} as of
-- 'empty': wait for an element of ROOM, or for the end of a lease.
-- The error ACKQ_RECORD: the record is missing or differs; nothing was done.
-- Atomic because a slot of a group must be taken and freed with the message that has it.
-- Cost: O((settled + 600) log messages), at most 1 MiB of bodies and of notes of dead letters, plus
-- 16 messages behind short ones; each byte of a note counts as four, and of a message moved aside
-- as two. A call delivers at most 200 messages of the lists, 200 whose turn it is, and 200 that
-- came back. It moves at most 200 aside, or 100 if others were delivered before them.
-- Roles: consumer, worker, doctor
local ready, backup, context, handoff = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local receives, extended, delayed, dead, paused = KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local record, counters, errors, looks, notes = KEYS[10], KEYS[11], KEYS[12], KEYS[13], KEYS[14]
-- include: groups/bound
local wanted, timeout, jitter = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local max_receives, max_body, expected = tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6]
local waited, settled = tonumber(ARGV[7]), 8

local AT_GATE = 200 -- messages of the lists that one call delivers or moves aside

-- include: pop_call, groups/rules, groups/read_types

-- Check every type before the first write, so that an error means that nothing was done.
local rules
do
  local found = redis.call('HMGET', record, 'in_flight', 'rate', 'on_dead', 'max_in_flight',
    'field', 'format', 'kind', 'place', 'waits')
  if not found[5] or found[9]
    or found[6] .. ' ' .. found[7] .. ' ' .. table.concat(found, ' ', 1, 5) ~= expected then
    return redis.error_reply('ACKQ_RECORD the record is missing or another one')
  end
  rules = rules_of(found)
  rules.field, rules.place = found[5], tonumber(found[8] or 0)
end
redis.call('LLEN', ready)
-- Once all keys that exist are met, no other one is asked for.
local sides = redis.call('EXISTS', handoff, receives, extended, errors, notes, delayed, dead,
  paused, counters)
local watched = sides > 0 and redis.call('HEXISTS', counters, 'since') == 1
local has_side = sides > (watched and 1 or 0)
local has_receives = has_side and redis.call('HLEN', receives) > 0
local has_extended = has_side and redis.call('HLEN', extended) > 0
local has_errors = has_side and redis.call('HLEN', errors) > 0
local has_notes = has_side and redis.call('HLEN', notes) > 0
local has_delayed = has_side and redis.call('ZCARD', delayed) > 0
if has_side then
  redis.call('LLEN', handoff)
  redis.call('XLEN', dead)
end
local are_parked, woken_note, are_stopped, are_apart, has_runs, had_turns = read_types()
are_stopped = are_stopped and rules.stops
local is_timed = rules.each or are_apart -- whether groups with a free slot may have to wait

-- include: holds, settle, mark, groups/rates, groups/slots, groups/slot_changes
-- include: groups/stop, groups/free, groups/wake, groups/admit
-- include: groups/pop/permits, groups/pop/read

-- The first write frees memory, even if only nothing: at maxmemory Redis rejects a script whose
-- first write may allocate, and a full queue could never drain.
if acked > 0 then
  free(done)
  write_slots()
else
  redis.call('HLEN', context)
  redis.call('ZREMRANGEBYRANK', backup, 1, 0)
end

if has_side and redis.call('EXISTS', paused) == 1 then
  return {'paused', refused}
end

local reply = {'ok', refused, deadline, {}}
local taken, returned, dead_lettered, bytes, derived = 0, 0, 0, 0, 0
local looked, deferred, gone = 0, 0, {} -- gone: keys of messages in flight that died
local last_receive = max_receives > 0 and max_receives or math.huge
local full = false
local has_taken = {} -- lease key -> true, of messages delivered or that came back

-- include: count_up, spend, dead_letter, failures, notes

if is_timed then
  renew_rates()
end
local has_turns = (had_turns or turned > 0) and are_due()

-- include: must_wait, groups/pop/deliver, recount, groups/pop/park, derive, bury_canceled
-- include: groups/pop/lease, groups/pop/turns, groups/pop/lists

-- The usual call has none to redeliver. Functions cost more to set up than to run.
local take_all_due
if has_delayed or redis.call('ZCOUNT', backup, '-inf', now_text) > 0 then
  -- include: bury_due, is_receipt, take_over, groups/pop/runs, groups/pop/back
  take_all_due(backup, 1)
end
-- Redelivered messages keep their room.
local has_room = true
if rules.most > 0 then
  local left = math.max(0, rules.most - redis.call('ZCARD', backup))
  has_room, wanted = left > 0, math.min(wanted, taken + left)
  full = full or taken >= wanted
end
if has_delayed and not full then
  take_all_due(delayed, 0)
end
write_parks()
if #gone > 0 then
  free(gone)
  has_turns = are_due()
end
serve_turns()
if has_room then
  if has_side then
    read_list(handoff)
  end
  read_list(ready)
end
if woken_tag and redis.call('EXISTS', ready, handoff) == 0 then
  write_parks()
  forget_woken()
  has_turns = are_due()
end
serve_turns()
if #followed > 0 and not full then
  -- include: groups/pop/extend_runs
  extend_runs()
else
  write_parks()
end

-- include: next_event, waiters, sweep_stale, groups/pop/sweep, groups/pop/write

count_up('returned', returned)
if jitter % SAMPLED == 0 then
  -- include: count_leases
end
write_place()
write_notes()
if taken + #flights > 0 then
  write_deliveries()
end
write_slots()
write_permits()
if taken > 0 and jitter % SWEEPS == 1 then
  sweep_slots(SWEPT / 10) -- a queue may never be empty
end
if had_turns or turned > 0 then
  wake()
end
admit()
if taken > 0 then
  if is_waiting and redis.call('EXISTS', ready, handoff, parked) == 0
    and next_event(backup, delayed) ~= 0 then
    reply[1] = 'last'
    waiters(true) -- the key also shows wake() that a consumer waits
  end
  return reply
end
if not has_room and dead_lettered + deferred == 0 then
  redis.call('DEL', room) -- nobody may look again
  local wait = next_event(backup)
  return {'limited', refused, wait == 0 and 1 or wait, is_waiting and waiters(true) or nil}
end
if full or is_stopped or dead_lettered > 0 or deferred > 0 or looked >= AT_GATE
  or bytes >= BODY_BUDGET then
  return {'again', refused}
end

-- Nothing can be taken.
if sweep_all() then
  return {'again', refused}
end
local wait = next_event(backup, delayed, is_timed and turns or nil)
return {'empty', refused, wait == 0 and 1 or wait, is_waiting and waiters(true) or nil}
