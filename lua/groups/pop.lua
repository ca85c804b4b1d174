-- pop: settle finished messages of a grouped queue, then take the next ones, each under a lease.
--
-- KEYS[1] {name}           LIST    ready messages: pushed on the left, taken from the right
-- KEYS[2] {name}BACKUP     ZSET    lease key -> deadline, µs since the epoch
-- KEYS[3] {name}CONTEXT    HASH    lease key -> the message as it was pushed
-- KEYS[4] {name}HANDOFF    LIST    front of the ready list: messages handed to a blocked consumer
-- KEYS[5] {name}RECEIVES   HASH    lease key -> receive count of redelivered messages
-- KEYS[6] {name}EXTENDED   HASH    lease key -> receipt:deadline of extended leases
-- KEYS[7] {name}DELAYED    ZSET    lease key -> due time, µs since the epoch
-- KEYS[8] {name}DEAD       STREAM  key, body, reason, count, time, errors of dead letters
-- KEYS[9] {name}PAUSED     STRING  exists while the queue is paused
-- KEYS[10] {name}RECORD    HASH    the settings of the queue, and the last place in PARKED
-- KEYS[11] {name}COUNTERS  HASH    counts, kept while a client watches; see watch.lua
-- KEYS[12] {name}ERRORS    HASH    lease key -> why deliveries of it failed; see nack.lua
-- KEYS[13] {name}WAITERS:LOOKS  STRING  see pop.lua; exists if a consumer has waited lately
-- KEYS[14] {name}GROUPS:BUSY    HASH    group -> its messages in flight: delivered and not settled,
--                                  leased or not
-- KEYS[15] {name}GROUPS:PARKED  ZSET    all scores 0: length of the group's name (3 digits), its
--                                  name, place (16 digits), body of a message moved aside. The
--                                  place is the µs at which that was done, or more: it only grows
-- KEYS[16] {name}GROUPS:TURNS   ZSET    group that has parked messages and a free slot -> since, µs
--                                  (in the future: when its rate permits a message)
-- KEYS[17] {name}GROUPS:FLIGHT  HASH    lease key -> = or >, place (16 digits), group; > if the
--                                  message waits in DELAYED for another one of its run
-- KEYS[18] {name}GROUPS:RUNS    ZSET    as PARKED, with lease keys instead of bodies: messages of a
--                                  group that one call delivered, though only one may be in flight
-- KEYS[19] {name}GROUPS:WOKEN   STRING  length:hash of a message moved to the list to wake a
--                                  consumer, since when it was its group's turn (µs), and what its
--                                  member of PARKED began with, separated by spaces
-- KEYS[20] {name}GROUPS:RATES   ZSET    group -> when it may have its whole burst again, µs
-- KEYS[21] {name}GROUPS:ROOM    LIST    an element lets a consumer that met the limit look again
-- KEYS[22] {name}GROUPS:STOPPED HASH    group -> ids of the dead letters that stop it, separated by
--                                  spaces; only if the record says that dead letters do so
-- KEYS[23] {name}GROUPS:LETTERS HASH    id of such a dead letter -> place, group
-- KEYS[24] {name}NOTES     HASH    notes of unique messages and of those on lists; see README.md
-- Supervised: KEYS[#KEYS] {name}TAKEN:<taker> STRING receipt of the latest take of a process that
--                                  another one supervises, which reads it; expires with the leases
--
-- ARGV[1] wanted           integer 1..1000             messages
-- ARGV[2] timeout          integer 1..43200000000      µs, visibility timeout
-- ARGV[3] jitter           integer 0..65535            µs, drawn for each call
-- ARGV[4] max_receives     integer 0..1000000          0: no limit
-- ARGV[5] max_body         integer 1..536870912        bytes; longer ones are dead-lettered
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
local record, counters, errors, looks = KEYS[10], KEYS[11], KEYS[12], KEYS[13]
local busy, parked, turns, flight = KEYS[14], KEYS[15], KEYS[16], KEYS[17]
local runs, woken, rates, room = KEYS[18], KEYS[19], KEYS[20], KEYS[21]
local stopped, letters, notes = KEYS[22], KEYS[23], KEYS[24]
local wanted, timeout, jitter = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local max_receives, max_body, expected = tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6]
local waited, settled = tonumber(ARGV[7]), 8

local SCRIPT = 'pop' -- in errors
local BODY_BUDGET = 1048576 -- bytes of bodies one call may move
local SLICE = 16 -- bodies read at a time, as long as those before were short
local SHORT = 4096 -- bytes
local DEAD_LETTER_BUDGET = 100 -- dead letters written in one call
local AT_GATE = 200 -- messages of the lists that one call delivers or moves aside
local SWEPT = 100 -- counts, notes and slots that one call looks at, whose messages may be gone
local SAMPLED = 64 -- one in this many calls counts the length of its leases
local COUNTED = 100 -- fields of the counters; further lengths of leases are not counted

-- include: outside, groups/rules

if outside(wanted, 1, 1000) or outside(timeout, 1, 43200000000) or outside(jitter, 0, 65535)
  or outside(max_receives, 0, 1000000) or outside(max_body, 1, 536870912)
  or outside(waited, -1, 9007199254740991) then
  return redis.error_reply('ACKQ_ARGUMENT pop: an argument is out of range; see groups/pop.lua')
end

local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local now_text = clock[1] .. string.sub('00000' .. clock[2], -6)
local deadline = now + timeout + jitter
local is_waiting = waited >= 0
local lease = string.format('%.0f', deadline)

-- Check every type before the first write, so that an error means that nothing was done.
local rules = rules_of()
if rules.text ~= expected or rules.waits then
  return redis.error_reply('ACKQ_RECORD the record is missing or another one')
end
local limit = rules.limit
redis.call('LLEN', ready)
redis.call('LLEN', handoff)
local has_receives = redis.call('HLEN', receives) > 0
local has_extended = redis.call('HLEN', extended) > 0
local has_errors = redis.call('HLEN', errors) > 0
local has_notes = redis.call('HLEN', notes) > 0
local has_delayed = redis.call('ZCARD', delayed) > 0
local watched = redis.call('HEXISTS', counters, 'since') == 1
redis.call('XLEN', dead)
redis.call('HLEN', busy)
local are_parked = redis.call('ZCARD', parked) > 0
redis.call('ZCARD', turns)
redis.call('HLEN', flight)
local has_runs = redis.call('ZCARD', runs) > 0
local woken_note = redis.call('GET', woken) or ''
redis.call('ZCARD', rates)
local are_stopped = rules.stops
  and redis.call('HLEN', letters) + redis.call('HLEN', stopped) > 0
redis.call('LLEN', room)

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

if redis.call('EXISTS', paused) == 1 then
  return {'paused', refused}
end

local reply = {'ok', refused, deadline, {}}
local taken, returned, dead_lettered, bytes, derived = 0, 0, 0, 0, 0
local looked, deferred, gone = 0, 0, {} -- gone: keys of messages in flight that died
local last_receive = max_receives > 0 and max_receives or math.huge
local full = false
local has_taken = {} -- lease key -> true, of messages delivered or that came back

-- include: count_up, spend, failures, notes

if rules.each then
  renew_rates()
end
local has_turns = are_due()

-- include: bury_due, must_wait, groups/pop/deliver, is_receipt
-- include: groups/pop/park, groups/pop/runs, groups/pop/back
-- include: derive, bury_canceled, groups/pop/lease, groups/pop/turns
-- include: groups/pop/lists, groups/pop/extend_runs

take_all_due(backup, 1)
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
  read_list(handoff)
  read_list(ready)
end
if woken_tag and redis.call('EXISTS', ready, handoff) == 0 then
  write_parks()
  forget_woken()
  has_turns = are_due()
end
serve_turns()
extend_runs()

-- include: next_event, waiters, sweep_stale, groups/pop/sweep, groups/pop/write

count_up('returned', returned)
local length = 'lease:' .. math.floor(timeout / 1000000)
if watched and taken > 0 and jitter % SAMPLED == 0 and (redis.call('HLEN', counters) < COUNTED
  or redis.call('HEXISTS', counters, length) == 1) then
  count_up(length, taken)
end
write_place()
write_notes()
if taken > 0 then
  write_deliveries()
end
write_slots()
write_permits()
if taken > 0 and jitter % SWEEPS == 1 then
  sweep_slots(SWEPT / 10) -- a queue may never be empty
end
wake()
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
local wait = next_event(backup, delayed, rules.each and turns or nil)
return {'empty', refused, wait == 0 and 1 or wait, is_waiting and waiters(true) or nil}
