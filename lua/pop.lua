-- pop: settle finished messages, then take the next ones, each under a lease.
--
-- Stands for the article's pop, which did RPOP and recorded what it got: here HSETNX and ZADD
-- record it, and LTRIM takes it from the list (search for LTRIM). docs/origins.md shows both.
--
-- include: queue_keys
-- KEYS[8] {name}DEAD       STREAM  key, body, reason, count, time, errors of dead letters
-- KEYS[9] {name}PAUSED     STRING  exists while the queue is paused
-- KEYS[10] {name}HELD      ZSET    held list -> µs from which its messages are the queue's
-- KEYS[11] {name}COUNTERS  HASH    counts, kept while a client watches; see watch.lua
-- KEYS[12] {name}ERRORS    HASH    lease key -> why deliveries of it failed; see nack.lua
-- KEYS[13] {name}WAITERS:LOOKS  STRING  time (µs):seconds, from which the waiting consumers are
--                                  estimated; on this server alone, and expires
-- KEYS[14] {name}NOTES     HASH    notes of unique messages and of those on lists; see README.md
-- KEYS[15] {name}RECORD    HASH    the settings of the queue, see record.lua
-- include: pop_arguments
-- ARGV[6] requeue          front|back                  where expired messages go
-- ARGV[7] pop_from         right|left  the end that is popped
-- ARGV[8] waited           integer -1..9007199254740991  µs for which the consumer has waited just
--                                                       before; -1: it does not wait
-- ARGV[9] settled          groups of: receipt, size 1..4000, then size lease keys; may be absent
--
-- Returns {'ok', refused, deadline, counts, key, body, key, body, ...}, where deadline is the
-- receipt of every message, counts are the receive counts of the first #counts messages (the
-- rest: 1), and refused the positions, from 1, of settled keys that are leased to another consumer
-- or wait for redelivery; negative: the key is in neither set, see ack.lua;
-- {'last', ...}, as 'ok', to a consumer that waits: nothing else can be taken now;
-- {'empty', refused, wait}: wait µs until the next lease ends or message is due, or -1. To a
-- consumer that waits, {'empty', refused, wait, waiters}: about how many consumers do;
-- {'paused', refused}; {'again', refused}: this call's budget is spent, none taken;
-- {'held', refused, list}: the messages of that list belong to the queue again: return them with
-- held/give_back before the next call.
-- Atomic because settling, leaving the list and gaining a lease must never be seen apart.
-- Cost: O((wanted + settled) log in-flight), at most 1 MiB of bodies and of notes of dead letters,
-- plus one message; each byte of a note counts as four.
-- Redis reports no element lengths: behind short messages up to 16 of any length are read at once.
-- Roles: consumer, worker, doctor
local ready, backup, context, handoff = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local receives, extended, delayed, dead, paused = KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local held, counters, errors, looks = KEYS[10], KEYS[11], KEYS[12], KEYS[13]
local notes, record = KEYS[14], KEYS[15]
local wanted, timeout, jitter = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local max_receives, max_body, requeue = tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6]
local pop_from, waited, settled = ARGV[7], tonumber(ARGV[8]), 9

local from_left = pop_from == 'left'

local GROUP = 128 -- bodies recorded at a time
local HEAD = 521 -- bytes in which the longest id ends; a pattern must not walk a long body
local RECOVERED = 200 -- messages that came back, of each kind, in one call: they cost the most
local NANOSECONDS = '1e17' -- no deadline is as late; the article's clients in Go record such times

if (requeue ~= 'front' and requeue ~= 'back') or not (pop_from == 'right' or from_left) then
  return redis.error_reply('ACKQ_ARGUMENT pop: front or back, and right or left')
end

-- include: pop_call, note_take

-- Check every type before the first write, so that an error means that nothing was done.
local settings = from_left and redis.call('HMGET', record, 'format', 'kind')
if settings and not (settings[1] == '2' and settings[2] == 'left') then
  return redis.error_reply('ACKQ_RECORD the record is not that of a queue popped from the left')
end
local next_body = wanted == 1 and redis.call('LINDEX', ready, from_left and '0' or '-1')
local has_ready = next_body or redis.call('LLEN', ready) > 0
-- What was taken follows from the other counts. So a call that acks nothing has nothing to count,
-- unless it is a sample or meets other keys.
local is_sample = jitter % SAMPLED == 0
local counts_surely = is_sample or #ARGV >= settled
local sides = counts_surely
  and redis.call('EXISTS', handoff, receives, extended, delayed, dead, paused, held, errors, notes,
    record, counters)
  or redis.call('EXISTS', handoff, receives, extended, delayed, dead, paused, held, errors, notes,
    record)
if from_left then
  sides = sides - 1 -- the record
end
local watched
if sides > 0 then
  watched = redis.call('HEXISTS', counters, 'since') == 1
end
-- Once all keys that exist are met, no other one is asked for.
local unmet = sides - (counts_surely and watched and 1 or 0)
local has_side = unmet > 0
local has_receives, has_delayed, has_errors, has_handoff, has_extended, has_held, has_notes
local is_paused
if has_side then
  unmet = redis.call('XLEN', dead) > 0 and unmet - 1 or unmet
  has_receives = unmet > 0 and redis.call('HLEN', receives) > 0
  unmet = has_receives and unmet - 1 or unmet
  has_delayed = unmet > 0 and redis.call('ZCARD', delayed) > 0
  unmet = has_delayed and unmet - 1 or unmet
  has_errors = unmet > 0 and redis.call('HLEN', errors) > 0
  unmet = has_errors and unmet - 1 or unmet
  has_handoff = unmet > 0 and redis.call('LLEN', handoff) > 0
  unmet = has_handoff and unmet - 1 or unmet
  has_extended = unmet > 0 and redis.call('HLEN', extended) > 0
  unmet = has_extended and unmet - 1 or unmet
  has_held = unmet > 0 and redis.call('ZCARD', held) > 0
  unmet = has_held and unmet - 1 or unmet
  has_notes = unmet > 0 and redis.call('HLEN', notes) > 0
  unmet = has_notes and unmet - 1 or unmet
  is_paused = unmet > 0 and redis.call('EXISTS', paused) == 1
  if unmet > (is_paused and 1 or 0) and not from_left and redis.call('HLEN', record) > 0 then
    return redis.error_reply('ACKQ_RECORD the queue has a record')
  end
end

-- include: holds, settle

-- The first write frees memory, even if only nothing: at maxmemory Redis rejects a script whose
-- first write may allocate, and a full queue could never drain.
if acked == 0 then
  redis.call('HLEN', context)
  redis.call('ZREMRANGEBYRANK', backup, 1, 0)
end

if is_paused then
  return {'paused', refused}
end
local free = has_held
  and redis.call('ZRANGEBYSCORE', held, '-inf', now_text, 'LIMIT', '0', '1')[1]
if free then
  return {'held', refused, free}
end

local expired = redis.call('ZCOUNT', backup, '-inf', now_text) > 0
  and redis.call('ZRANGEBYSCORE', backup, '-inf', now_text, 'LIMIT', '0',
    math.min(wanted, RECOVERED)) or {}

-- The usual call wants one message, has none to redeliver, and finds the id in front. This short
-- path does the same as the code below, which costs more to set up than to run.
if next_body and not has_side and #expired == 0 and #next_body <= max_body then
  local head = #next_body <= HEAD and next_body or string.sub(next_body, 1, HEAD)
  local id = string.match(head, '^{"id":%s?"([^"\\%c]+)"')
  if id and #id <= 512 and redis.call('HSETNX', context, id, next_body) == 1 then
    -- Not RPOP, so that a consumer's ACL need not allow a bare RPOP, which loses messages.
    redis.call('LTRIM', ready, from_left and '1' or '0', from_left and '-1' or '-2')
    redis.call('ZADD', backup, lease, id)
    note_take(lease)
    if watched and is_sample then
      redis.pcall('HINCRBY', counters, 'lease:' .. math.floor(timeout / 1000000), 1)
    end
    local is_last = is_waiting and redis.call('EXISTS', ready) == 0
    return {is_last and 'last' or 'ok', refused, deadline, {}, id, next_body}
  end
end

-- include: next_event, sweep_stale, waiters

-- Return the reply of a call that finds nothing to take.
local function empty()
  if not has_held then -- held messages may come back to a list
    sweep_stale()
  end
  local wait = next_event(backup, delayed, held)
  return {'empty', refused, wait == 0 and 1 or wait, is_waiting and waiters(waited > 0) or nil}
end

local is_due = has_delayed and redis.call('ZCOUNT', delayed, '-inf', now_text) > 0
if #expired == 0 and not (is_due or has_handoff or has_ready) then
  expired = redis.call('ZRANGEBYSCORE', backup, NANOSECONDS, '+inf', 'LIMIT', '0',
    math.min(wanted, RECOVERED))
  if #expired == 0 then
    return empty()
  end
end

local reply = {'ok', refused, deadline, {}}
local counts, leases, recounted, claimed = reply[4], {}, {}, {} -- claimed: keys given in this call
local taken, returned, dead_lettered, bytes, derived = 0, 0, 0, 0, 0
local last_receive = max_receives > 0 and max_receives or math.huge
local full = false

-- include: dead_letter, failures, must_wait, notes, write_leases

local function deliver(key, body, count)
  local at = 2 * taken
  leases[at + 1], leases[at + 2] = lease, key
  reply[at + 5], reply[at + 6] = key, body
  taken, bytes = taken + 1, bytes + #body
  full = full or taken >= wanted or bytes >= BODY_BUDGET or count >= last_receive
end

if #expired > 0 or is_due then
  -- include: pop/back
end
if not full then
  -- include: pop/lists
end

write_notes()
count_up('returned', returned)
-- include: count_leases

if taken > 0 then
  write_leases(taken, leases, recounted)
  if is_waiting and redis.call('EXISTS', ready, handoff) == 0
    and next_event(backup, delayed, held) ~= 0 then
    reply[1] = 'last'
  end
  return reply
end
if full or dead_lettered > 0 then
  return {'again', refused}
end
return empty()
