-- delay/take: take messages that are ready, each under a lease. Never one before its time.
--
-- include: delay/fenced_keys
--
-- ARGV[1] session           of the consumer; empty: partitions are not assigned
-- ARGV[2] generation        integer 0..9007199254740991   of the session's assignment
-- ARGV[3] wanted            integer 1..1000               messages
-- ARGV[4] timeout           integer 1..43200000000        µs, visibility timeout
-- ARGV[5] jitter            integer 0..65535              µs, drawn for each call
-- ARGV[6] max_receives      integer 0..1000000            0: no limit
--
-- Returns {'ok', deadline, position, key, body, ready time, count, position, key, ...}, where
-- deadline is the receipt of every message and position that of its partition, from 1;
-- {'empty', wait}: wait µs until the next message is ready or lease ends, or -1;
-- {'stale'}: the partitions were reassigned; {'again'}: this call's budget is spent,
-- none taken.
-- Atomic because a message must never be leased twice, and the session check must hold until the
-- lease. A lease moves the ready time to its deadline, so that clients without leases wait too.
-- Cost: O(partitions + wanted log stored), at most 1 MiB of bodies and of notes of dead
-- letters, plus one message; each byte of a note counts as four.
-- Roles: consumer
local members, group = KEYS[1], KEYS[2]
local session, generation = ARGV[1], tonumber(ARGV[2])
local wanted, timeout, jitter = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local max_receives = tonumber(ARGV[6])

local STRIDE = 9
local SLICE = 16 -- messages looked at at a time; their bodies are read one by one
local BODY_BUDGET = 1048576 -- bytes of bodies one call may move
local DEAD_LETTER_BUDGET = 100 -- dead letters written in one call
local SWEEP = 16 -- leases without a message that one call forgets in a partition
local SWEPT = 256 -- leases that one call looks at for it, in all partitions
local NOTES = 16 -- notes of failures that one call looks at, whose messages may be gone

-- include: outside

if not session or outside(generation, 0, 9007199254740991) or outside(wanted, 1, 1000)
  or outside(timeout, 1, 43200000000) or outside(jitter, 0, 65535)
  or outside(max_receives, 0, 1000000) or #KEYS % STRIDE ~= 2 then
  return redis.error_reply('ACKQ_ARGUMENT delay/take: an argument is out of range')
end
if session ~= '' and (not redis.call('ZSCORE', members, session)
  or tonumber(redis.call('HGET', group, 'generation')) ~= generation) then
  return {'stale'}
end

-- include: now
local deadline = now + timeout + jitter
local lease = string.format('%.0f', deadline)

-- include: delay/score_of
local now_text, deadline_text = score_of(now), score_of(deadline)

-- Find all messages and check every type before the first write, so that an error means that
-- nothing was done.
local due, ready_now = {}, 0
for first = 3, #KEYS, STRIDE do
  if ready_now < wanted then
    local listed = redis.call('ZRANGEBYSCORE', KEYS[first], '-inf', now_text, 'WITHSCORES',
      'LIMIT', 0, wanted - ready_now + 1)
    if #listed > 0 then
      local has_side = redis.call('EXISTS', KEYS[first + 3], KEYS[first + 4], KEYS[first + 5],
        KEYS[first + 7]) > 0
      due[#due + 1] = {first, listed, redis.call('ZCARD', KEYS[first + 2]) > 0,
        has_side and redis.call('HLEN', KEYS[first + 3]) > 0,
        has_side and redis.call('HLEN', KEYS[first + 4]) > 0}
      redis.call('HLEN', KEYS[first + 1])
      redis.call('LLEN', KEYS[first + 6])
      if has_side then
        redis.call('XLEN', KEYS[first + 5])
        redis.call('HLEN', KEYS[first + 7])
      end
      ready_now = ready_now + #listed / 2
    end
  end
end

-- include: delay/count_up, delay/end_delivery

-- Remove leases whose messages other clients deleted, and return how many were looked at. Only if
-- no message is due: an ended lease that still has its message makes that message due.
local function sweep(first)
  local keys = redis.call('ZRANGEBYSCORE', KEYS[first + 2], '-inf', string.format('%.0f', now),
    'LIMIT', 0, SWEEP)
  if #keys == 0 then
    return 0
  end
  redis.call('HLEN', KEYS[first + 3])
  redis.call('HLEN', KEYS[first + 4])
  local scores = redis.call('ZMSCORE', KEYS[first], unpack(keys))
  for i, key in ipairs(keys) do
    if not scores[i] then
      end_delivery(first, key)
    end
  end
  return #keys
end

-- Remove some notes of failures whose messages are gone: those without a receive count. A client of
-- the release before, which knows no notes, left them.
local function sweep_notes(first)
  local keys = redis.call('HRANDFIELD', KEYS[first + 7], NOTES)
  local known = #keys > 0 and redis.call('HMGET', KEYS[first + 4], unpack(keys)) or {}
  for i, key in ipairs(keys) do
    if not known[i] then
      redis.call('HDEL', KEYS[first + 7], key)
    end
  end
end

if ready_now == 0 then
  local wait = -1
  for first = 3, #KEYS, STRIDE do
    local nearest = redis.call('ZRANGE', KEYS[first], 0, 0, 'WITHSCORES')[2]
    if nearest then
      local left = math.max(1, math.ceil(math.min(tonumber(nearest) * 1000000 - now, 1e12)))
      wait = wait < 0 and left or math.min(wait, left)
    end
  end
  -- Start at another partition each time, so that every partition has its turn.
  local partitions, swept = (#KEYS - 2) / STRIDE, 0
  sweep_notes(3 + clock[2] % partitions * STRIDE)
  for i = 1, partitions do
    if swept < SWEPT then
      swept = swept + sweep(3 + (clock[2] + i) % partitions * STRIDE)
    end
  end
  return {'empty', wait}
end

-- The first write frees memory, even if only nothing: at maxmemory Redis rejects a script whose
-- first write may allocate, and a full delay queue could never drain.
redis.call('ZREMRANGEBYRANK', KEYS[3], 1, 0)

local reply = {'ok', deadline}
local taken, dead_lettered, bytes = 0, 0, 0
local full = false

-- include: spend, failures, add_failure, write_letter

local function dead_letter(first, key, body, reason, count, found)
  write_letter(KEYS[first + 5],
    {key = key, body = body, reason = reason, count = count, errors = found})
  redis.call('ZREM', KEYS[first], key)
  redis.call('HDEL', KEYS[first + 1], key)
  end_delivery(first, key)
  count_up(first, 'dead:' .. reason, 1)
  dead_lettered = dead_lettered + 1
  spend(body)
  full = full or dead_lettered >= DEAD_LETTER_BUDGET
end

-- A shortened lease ends before its receipt. A new lease may get exactly that deadline, but must
-- not have the same receipt. The next call gets another microsecond.
local function is_receipt(extended, key)
  local note = redis.call('HGET', extended, key)
  return note and string.find(note, lease .. ':', 1, true) == 1
end

-- Take the listed messages of one partition, and return whether some of them had to stay.
local function serve(first, listed, has_leases, has_extended, has_receives)
  local ready, leases, recounted, last, returned = {}, {}, {}, #listed, 0
  local position = (first - 3) / STRIDE + 1
  local at = 1
  while at <= last and not full do
    local keys = {}
    for i = at, math.min(last, at + 2 * SLICE - 1, at + 2 * (wanted - taken) - 1), 2 do
      keys[#keys + 1] = listed[i]
    end
    local held = has_leases and redis.call('ZMSCORE', KEYS[first + 2], unpack(keys)) or {}
    for i, key in ipairs(keys) do
      if full then
        break
      end
      local until_ = tonumber(held[i] or nil)
      local count = 1 + (tonumber(has_receives and redis.call('HGET', KEYS[first + 4], key) or nil)
        or (until_ and 1 or 0))
      local is_held = until_ and until_ > now
      local body = not is_held and redis.call('HGET', KEYS[first + 1], key)
      if is_held then
        -- A client without leases changed the ready time. Wait for the end of the lease, and one µs
        -- more: this may be a different message by now, so the lease holder must not be able to
        -- delete it.
        redis.call('ZADD', KEYS[first], 'XX', score_of(until_ + 1), key)
      elseif not body then
        dead_letter(first, key, '', 'body missing', count - 1, {})
      elseif max_receives > 0 and count > max_receives then
        local note = redis.call('HGET', KEYS[first + 7], key) or ''
        local failures = failures_of(note, body, count)
        bytes = bytes + 4 * #note -- a pattern reads it, which takes longer than moving it
        if until_ then
          add_failure(failures, count - 1, '') -- no error is known: its lease ended
        end
        dead_letter(first, key, body, 'max receives', count - 1, failures)
      elseif has_extended and is_receipt(KEYS[first + 3], key) then
        full = true
        break
      elseif max_receives > 0 and count >= max_receives and taken > 0 then
        -- On its last permitted receive it is delivered alone, so that no other message is charged
        -- if it kills its consumer.
        full = true
        break
      else
        ready[#ready + 1] = deadline_text
        ready[#ready + 1] = key
        returned = returned + (until_ and 1 or 0)
        leases[#leases + 1] = lease
        leases[#leases + 1] = key
        if count > 1 then
          recounted[#recounted + 1] = key
          recounted[#recounted + 1] = count
        end
        if has_extended then
          redis.call('HDEL', KEYS[first + 3], key)
        end
        for _, value in ipairs({position, key, body, listed[at + 1], count}) do
          reply[#reply + 1] = value
        end
        taken = taken + 1
        spend(body)
        full = full or taken >= wanted or (max_receives > 0 and count >= max_receives)
      end
      at = at + 2
    end
  end
  if #ready > 0 then
    redis.call('ZADD', KEYS[first], unpack(ready))
    redis.call('ZADD', KEYS[first + 2], unpack(leases))
  end
  if #recounted > 0 then
    redis.call('HSET', KEYS[first + 4], unpack(recounted))
  end
  count_up(first, 'returned', returned)
  return at <= last
end

for _, each in ipairs(due) do
  if not full then
    local more = serve(unpack(each))
    -- One arrival wakes one consumer; a consumer that leaves messages wakes the next.
    if more and redis.call('LLEN', KEYS[each[1] + 6]) == 0 then
      redis.call('LPUSH', KEYS[each[1] + 6], '1')
    end
  end
end
return taken > 0 and reply or {'again'}
