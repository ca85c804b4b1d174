-- cancel: move chosen messages to the dead letters, with the reason "canceled": delayed ones, and
-- leased ones whose leases have ended or, if that is asked for, run.
--
-- include: delayed_keys
-- KEYS[5] {name}ERRORS     HASH    lease key -> why deliveries of it failed; see nack.lua
-- KEYS[6] {name}COUNTERS   HASH    counts, kept while a client watches; see watch.lua
-- KEYS[7] {name}BACKUP     ZSET    lease key -> deadline, µs since the epoch
-- KEYS[8] {name}EXTENDED   HASH    lease key -> receipt:deadline of extended leases
-- KEYS[9] {name}NOTES      HASH    notes of unique messages and of those on lists; see README.md
-- KEYS[10] {name}RECORD    HASH    the settings of the queue, see record.lua
-- With groups: KEYS[11] {name} LIST ready messages
-- include: groups/keys
-- include: groups/waking_keys
--
-- ARGV[1] running          0|1     1: also messages whose leases run. The lease ends, so the
--                          holder's settles are refused, and its next extend reports the cancel
-- ARGV[2] chosen           1..1000 pairs of: the due time that the message must have, an integer
--                          0..9007199254740991 µs, or empty for any, and for a lease; lease key
--
-- Returns {canceled, looked at}; pass the other pairs in the next call. A message that is not there
-- or has another due time is left alone; one that is due, but not taken yet, is canceled.
-- Atomic because a message must always be in one place, and a lease must not end unrecorded.
-- Cost: O(chosen log in-flight): at most 100 messages and 1 MiB of bodies and notes, plus one; each
-- byte of a note counts as four.
-- Roles: operator, doctor
local context, receives, delayed = KEYS[1], KEYS[2], KEYS[3]
local dead, errors, counters, backup, extended = KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local notes, record, ready = KEYS[9], KEYS[10], KEYS[11]
-- include: groups/waking_bound
local running = ARGV[1]

local BODY_BUDGET = 1048576 -- bytes of bodies and notes one call may move
local MAX_IN_CALL = 100 -- messages one call may move
local SWEPT = 100 -- notes that one call looks at, whose leases may have ended

-- include: outside

if running ~= '0' and running ~= '1' then
  return redis.error_reply('ACKQ_ARGUMENT cancel: running is 0 or 1')
end
if #ARGV < 3 or #ARGV > 2001 or #ARGV % 2 == 0 then
  return redis.error_reply('ACKQ_ARGUMENT cancel: 1..1000 pairs of a due time and a key')
end
for at = 2, #ARGV, 2 do
  if ARGV[at] ~= '' and outside(tonumber(ARGV[at]), 0, 9007199254740991) then
    return redis.error_reply('ACKQ_ARGUMENT cancel: a due time is 0..9007199254740991 or empty')
  end
end

redis.call('HLEN', context)
redis.call('HLEN', receives)
redis.call('ZCARD', delayed)
redis.call('XLEN', dead)
redis.call('ZCARD', backup)
local has_extended = redis.call('HLEN', extended) > 0
local has_errors = redis.call('HLEN', errors) > 0
local has_notes = redis.call('HLEN', notes) > 0
local watched = redis.call('HEXISTS', counters, 'since') == 1
-- include: now

local known = busy and 'groups' or nil
-- include: record, groups/known

-- include: count_up, failures, names, write_letter

local names = open_names()

-- Return the score and the set of a message that may be canceled.
local function place_of(key, due)
  local score = tonumber(redis.call('ZSCORE', delayed, key) or nil)
  if score then
    return (due == '' or score == tonumber(due)) and score, delayed
  end
  score = due == '' and tonumber(redis.call('ZSCORE', backup, key) or nil)
  return score and (running == '1' or score <= now) and score, backup
end

-- Note which delivery was canceled, for its holder's next extend. The note ends with the lease.
-- Another delivery of the same key has another receipt.
local function note_for_holder(key, deadline)
  local ends = string.format('%.0f', deadline)
  local note = has_extended and redis.call('HGET', extended, key) or ''
  local receipt = string.match(note, '^(%d+):' .. ends .. '$') or ends
  redis.call('HSET', extended, key, receipt .. ':canceled:' .. ends)
end

local canceled, ended, looked, bytes, gone, ids = 0, 0, 0, 0, {}, {}
while 2 * looked + 1 < #ARGV and canceled < MAX_IN_CALL and bytes < BODY_BUDGET do
  local due, key = ARGV[2 * looked + 2], ARGV[2 * looked + 3]
  looked = looked + 1
  local score, zset = place_of(key, due)
  local body = score and redis.call('HGET', context, key)
  -- A key without a body is left to pop and the audit, which report it.
  if body then
    local is_delayed = zset == delayed
    local count = tonumber(redis.call('HGET', receives, key)) or (is_delayed and 0 or 1)
    local note = has_errors and redis.call('HGET', errors, key) or ''
    local found = failures_of(note, body, is_delayed and count + 1 or count)
    -- The first write frees memory, so that messages can be canceled at maxmemory.
    redis.call('ZREM', zset, key)
    local id = write_letter(dead, {
      key = key, body = body, reason = 'canceled', count = count, errors = found,
      is_unique = names.forget(key),
    })
    redis.call('HDEL', context, key)
    redis.call('HDEL', receives, key)
    redis.call('HDEL', errors, key)
    if not is_delayed then
      note_for_holder(key, score)
      ended = ended + 1
    end
    canceled = canceled + 1
    gone[canceled], ids[canceled] = key, id
    -- A pattern reads the notes, which takes longer than moving them.
    bytes = bytes + #body + 4 * #note
  end
end
names.write()
count_up('dead:canceled', canceled)
count_up('ended', ended)

-- Nothing else removes these notes. Look at a few, more than were added.
local most = SWEPT + 2 * ended
local noted = ended > 0 and redis.call('HRANDFIELD', extended, most, 'WITHVALUES') or {}
for i = 1, #noted, 2 do
  local ends = string.match(noted[i + 1], ':canceled:(%d+)$')
  if ends and tonumber(ends) <= now then
    redis.call('HDEL', extended, noted[i])
  end
end
if not busy or canceled == 0 then
  return {canceled, looked}
end

-- include: groups/stop_all, groups/leave

stop_all(gone, ids)
leave(gone)
return {canceled, looked}
