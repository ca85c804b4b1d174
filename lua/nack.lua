-- nack: return messages for redelivery after a delay, or move them to the dead letters: those that
-- were delivered too often, or all.
--
-- KEYS[1] {name}           LIST    ready messages: pushed on the left, taken from the right
-- KEYS[2] {name}BACKUP     ZSET    lease key -> deadline, µs since the epoch
-- KEYS[3] {name}CONTEXT    HASH    lease key -> the message as it was pushed
-- KEYS[4] {name}RECEIVES   HASH    lease key -> receive count of redelivered messages
-- KEYS[5] {name}EXTENDED   HASH    lease key -> receipt:deadline of extended leases
-- KEYS[6] {name}DELAYED    ZSET    lease key -> due time, µs since the epoch
-- KEYS[7] {name}DEAD       STREAM  key, body, reason, count, time, errors of dead letters
-- KEYS[8] {name}ERRORS     HASH    lease key -> length:hash of the body, then a line for each of
--                                  its last five failures: receive count:time µs:failure
-- KEYS[9] {name}COUNTERS   HASH    counts, kept while a client watches; see watch.lua
-- KEYS[10] {name}NOTES     HASH    notes of unique messages and of those on lists; see README.md
-- KEYS[11] {name}RECORD    HASH    the settings of the queue, see record.lua
-- KEYS[12] {name}HANDOFF   LIST    front of the ready list
-- KEYS[13] {name}WAITERS:LOOKS STRING exists if a consumer has waited lately
-- include: groups/keys
--
-- ARGV[1] way              nack|release|reject  release: this delivery does not count; reject: move
--                          all to the dead letters
-- ARGV[2] max_receives     integer 0..1000000  of a nack; 0: no limit
-- ARGV[3] reason           text    of a reject, kept with the dead letters
-- ARGV[4] returned         groups of: receipt, delay µs 0..9007199254740991, size 1..4000, then
--                          size lease keys; instead of a delay, -1 or -2 pushes to the left or
--                          right end of the ready list: the back of a queue popped from the other.
--                          After the last group may follow: errors, then pairs of a position, from
--                          1, and why the messages up to there failed: one line of JSON, at most
--                          8,192 bytes, with type, text, place and traceback; empty: no error
--
-- Messages with the same delay are redelivered in the given order.
-- Returns {returned, position, position, ...}: how many were returned or rejected, then the
-- positions, from 1, of refused keys: another consumer has the lease or, for a reject, the message
-- waits for redelivery. Negative: the key is in DELAYED or in neither set. Either this call was
-- resent after a lost reply, or another consumer settled the message; only the caller knows which.
-- A 0 and a position after them: pass the keys from there on in the next call. Of a nack, a final
-- array: the positions of those that became dead letters.
-- Atomic because a message must always be either leased, due or dead, never two of them.
-- Cost: O(returned log in-flight): at most 100 messages; of those that become dead letters or go to
-- the list, or have an error, at most 1 MiB of bodies and notes plus one message. No other body is
-- read. Each byte of an earlier note counts as four.
-- Roles: consumer, worker, doctor
local ready, backup, context, receives = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local extended, delayed, dead, errors, counters = KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local notes, record, handoff, looks = KEYS[10], KEYS[11], KEYS[12], KEYS[13]
-- include: groups/bound
local way, max_receives, reason = ARGV[1], tonumber(ARGV[2]), ARGV[3]

local BODY_BUDGET = 1048576 -- bytes of bodies one call may move
local MAX_IN_CALL = 100 -- messages one call may return or reject
local COUNTS_AS = {nack = 'nacked', release = 'released', reject = 'dead:rejected'}

-- include: outside

if not COUNTS_AS[way] or outside(max_receives, 0, 1000000) or not reason then
  return redis.error_reply('ACKQ_ARGUMENT nack: nack, release or reject, max_receives, a reason')
end

redis.call('LLEN', ready)
redis.call('LLEN', handoff)
redis.call('HLEN', context)
redis.call('HLEN', receives)
redis.call('ZCARD', delayed)
redis.call('XLEN', dead)
local has_errors = redis.call('HLEN', errors) > 0
local watched = redis.call('HEXISTS', counters, 'since') == 1
local has_extended = redis.call('HLEN', extended) > 0
local has_notes = redis.call('HLEN', notes) > 0
-- include: now

local known = busy and 'groups' or nil
-- include: record, groups/known

-- include: count_up, named, failures, add_failure, read_failures, write_letter, leave_from, names

local names = has_notes and open_names()

-- include: wake_up

local held, refused, ends, position = named(4, -2, 9007199254740991)
if not held then
  return redis.error_reply('ACKQ_ARGUMENT nack: a group is a receipt, a delay, a size and keys')
end
local failures = read_failures(ends, position)
if not failures then
  return redis.error_reply('ACKQ_ARGUMENT nack: errors are pairs of a position and a line')
end

local reply = {0}
for _, each in ipairs(refused) do
  local waits = each.score or way == 'reject' and redis.call('ZSCORE', delayed, each.key)
  reply[#reply + 1] = waits and each.position or -each.position
end

-- Forget that a delivery began, which alone.lua noted: it does not count. Return the note's length.
local function without_begin(key, count)
  local note = redis.call('HGET', errors, key) or ''
  local rest, had = string.gsub(note, string.format('\n%.0f:[^\n]*$', count), '')
  if had > 0 then
    redis.call('HSET', errors, key, rest)
  end
  return #note
end

local most, bytes, missing = math.min(#held, MAX_IN_CALL), 0, 0
local died, gone, ids = {}, {}, {} -- positions, keys and stream ids of dead letters
local freed = {} -- keys of messages without a slot
local waking -- the last one that is ready first

-- The first write frees memory, so that messages can be returned and rejected at maxmemory.
for i, each in ipairs(held) do
  local key, delay, failure = each.key, each.value, failures[each.position]
  -- A microsecond apart, since Redis sorts equal scores by key. Without a delay they end at the
  -- present, so that all are due. With a delay they begin at its end: none is early.
  local due = delay > 0 and now + delay - 1 + i or now - most + i
  if i > MAX_IN_CALL or bytes >= BODY_BUDGET then
    leave_from(each.position, reply)
    waking = nil -- those of the next call come first
    break
  end
  -- Read everything before the message leaves its lease: while its slot moves to another node,
  -- Redis refuses access to a key that this script has emptied, and it would end halfway.
  local count = tonumber(redis.call('HGET', receives, key)) or 1
  local dies = way == 'reject' or way == 'nack' and max_receives > 0 and count >= max_receives
  local body = dies or redis.call('HEXISTS', context, key) == 1
  if body and (dies or delay < 0 or failure) then
    body = redis.call('HGET', context, key)
    bytes = bytes + #(body or '')
  end
  local note = body and (failure or dies) and has_errors and redis.call('HGET', errors, key)
  local found = failures_of(note, body, count)
  bytes = bytes + 4 * #(note or '') -- a pattern reads the note, which takes longer than moving it
  if redis.call('ZREM', backup, key) == 1 then
    reply[1] = reply[1] + 1
    if failure then
      add_failure(found, count, failure)
    end
    if not body or dies then
      local why = way == 'reject' and reason or body and 'max receives' or 'body missing'
      ids[#ids + 1] = write_letter(dead, {
        key = key, body = body or '', reason = why, count = count, errors = found,
        is_unique = names and names.forget(key),
      })
      redis.call('HDEL', context, key)
      redis.call('HDEL', receives, key)
      redis.call('HDEL', errors, key)
      died[#died + 1], gone[#gone + 1], freed[#freed + 1] = each.position, key, key
      missing = missing + (body and 0 or 1)
    else
      count = way == 'nack' and count or count - 1
      if delay < 0 then
        redis.call(delay == -2 and 'RPUSH' or 'LPUSH', ready, body)
        redis.call('HDEL', context, key)
        note_listed(key, body, count)
      else
        redis.call('ZADD', delayed, string.format('%.0f', math.min(due, 9007199254740991)), key)
        each.count, each.due = count, due
        waking = waking and waking.value < delay and waking or each
      end
      if delay < 0 or count == 0 then
        redis.call('HDEL', receives, key)
      else
        redis.call('HSET', receives, key, string.format('%.0f', count))
      end
      -- A message that goes to the list keeps its errors only under its id.
      if count == 0 or (delay < 0 and string.byte(key) == 0) then
        redis.call('HDEL', errors, key)
      elseif failure then
        note = mark(body) .. '\n' .. table.concat(found, '\n')
        redis.call('HSET', errors, key, note)
        bytes = bytes + #note
      elseif way == 'release' and has_errors then
        bytes = bytes + 4 * without_begin(key, count + 1)
      end
    end
    redis.call('HDEL', extended, key)
  end
end
if waking and wake_up(waking.key, waking.count, waking.due) then
  freed[#freed + 1] = waking.key
end
write_notes()
count_up(COUNTS_AS[way], reply[1])
if #died > 0 and way ~= 'reject' then
  count_up('dead:max receives', #died - missing)
  count_up('dead:body missing', missing)
  reply[#reply + 1] = died
end
if not busy or (#freed == 0 and rules.most == 0) then
  return reply
end

-- include: groups/stop_all, groups/leave

if #gone > 0 then
  stop_all(gone, ids)
end
leave(freed)
return reply
