-- staging/delay: put committed rows into a delay queue, step by step.
--
-- KEYS[1] {queue}:held      ZSET  name of a committed list -> 0
-- KEYS[2] {queue}:heldrows  HASH  name of that list -> rows in it
-- KEYS[3] {queue}:staged:<writer>:<batch>:<task>:partitions=<count>:  LIST  rows, the first at
--                           the right end; count 0: not partitioned. Each row:
--                           <partition, from 1>:<due, µs>:<length of the key>:<key><body>
-- then groups of nine, one group for each partition; {queue} is {queue}:P in these.
-- KEYS[4] {queue}:z         ZSET    message key -> ready time, s since the epoch
-- KEYS[5] {queue}:h         HASH    message key -> body
-- KEYS[6] {queue}:leases    ZSET    message key -> lease deadline, µs since the epoch
-- KEYS[7] {queue}:extended  HASH    message key -> receipt:deadline of extended leases
-- KEYS[8] {queue}:receives  HASH    message key -> receive count of redelivered messages
-- KEYS[9] {queue}:dead      STREAM  key, body, reason, count, time, errors of dead letters
-- KEYS[10] {queue}:wake     LIST    at most one token, for one waiting consumer
-- KEYS[11] {queue}:errors   HASH    message key -> why it failed; see delay/nack.lua
-- KEYS[12] {queue}:counters HASH    counts, kept while a client watches; see delay/watch.lua
--
-- ARGV[1] wanted            integer 1..1000     rows
--
-- Returns {moved, left, refused}: call again while rows are left. A row whose key is stored with
-- the same body is that message; with another body, the row is refused: it becomes a dead letter.
-- Atomic because a row must leave the list when it is stored, so that a crash stores none twice.
-- Cost: O(rows log stored): at most wanted rows and 1 MiB, plus one row.
-- Roles: none
local held, heldrows, list = KEYS[1], KEYS[2], KEYS[3]
local wanted = tonumber(ARGV[1])
local HEAD, STRIDE = 3, 9
local LATEST = 8589934591000000 -- µs; up to here a score in seconds tells microseconds apart
local BODY_BUDGET = 1048576 -- bytes of rows one call may move

-- include: outside

if outside(wanted, 1, 1000)
  or #KEYS < HEAD + STRIDE or (#KEYS - HEAD) % STRIDE ~= 0 then
  return redis.error_reply('ACKQ_ARGUMENT staging/delay: an argument is out of range')
end

-- include: now
redis.call('HLEN', heldrows)
if not redis.call('ZSCORE', held, list) then
  return {0, 0, 0}
end
-- A key of another type belongs to another program: leave it alone and stop tracking it.
local left = redis.call('TYPE', list).ok == 'list' and redis.call('LLEN', list) or 0
local most = math.min(wanted, left)

local rows, has_side, bytes = {}, {}, 0
while #rows < most and bytes < BODY_BUDGET do
  local text = redis.call('LINDEX', list, -#rows - 1)
  local place, due, length, rest = string.match(text, '^(%d+):(%d+):(%d+):(.*)$')
  local first = HEAD + 1 + ((tonumber(place) or 0) - 1) * STRIDE
  if not KEYS[first + STRIDE - 1] or first <= HEAD then
    return redis.error_reply('ACKQ_VALUE staging/delay: a row names no partition')
  end
  rows[#rows + 1] = {
    first = first, due = tonumber(due),
    key = string.sub(rest, 1, length), body = string.sub(rest, length + 1),
  }
  bytes = bytes + #text
  -- Check every type before the first write, so that an error means that nothing was done.
  if has_side[first] == nil then
    redis.call('ZCARD', KEYS[first])
    redis.call('HLEN', KEYS[first + 1])
    redis.call('ZCARD', KEYS[first + 2])
    redis.call('HLEN', KEYS[first + 3])
    redis.call('HLEN', KEYS[first + 4])
    redis.call('XLEN', KEYS[first + 5])
    redis.call('LLEN', KEYS[first + 6])
    redis.call('HLEN', KEYS[first + 7])
    has_side[first] = redis.call('EXISTS', KEYS[first + 2], KEYS[first + 3], KEYS[first + 4],
      KEYS[first + 7]) > 0
  end
end

-- include: delay/score_of, delay/time_of, behind, delay/count_up, delay/end_delivery
-- include: write_letter

-- Return whether the stored body under the row's key differs; a longer body is not read.
local function differs(row)
  return redis.call('HSTRLEN', KEYS[row.first + 1], row.key) ~= #row.body
    or redis.call('HGET', KEYS[row.first + 1], row.key) ~= row.body
end

-- Return whether the message stored under the key is a different one.
local latest = {}
local function is_other(row)
  local first, key = row.first, row.key
  local same = first .. ':' .. row.due
  latest[same] = latest[same] and latest[same] + 1
    or behind(KEYS[first], row.due, score_of(row.due))
  local due = score_of(math.min(latest[same], LATEST))
  if redis.call('ZADD', KEYS[first], 'NX', due, key) == 0 then
    return differs(row)
  end
  if redis.call('HSETNX', KEYS[first + 1], key, row.body) == 0 then
    -- A body without a ready time was left by another client. It was accepted, so it is due now.
    redis.call('ZADD', KEYS[first], score_of(now), key)
    return differs(row)
  end
  if has_side[first] then
    -- Left by an earlier message with this key that another client deleted.
    end_delivery(first, key)
  end
  return false
end

local refused, keys = 0, {}
for _, row in ipairs(rows) do
  if is_other(row) then
    write_letter(KEYS[row.first + 5],
      {key = row.key, body = row.body, reason = 'duplicate key', count = 0})
    count_up(row.first, 'dead:duplicate key', 1)
    refused = refused + 1
  end
  keys[row.first] = keys[row.first] or {}
  keys[row.first][row.key] = true
end
left = left - #rows
if left > 0 then
  redis.call('LTRIM', list, 0, -#rows - 1)
  redis.call('HSET', heldrows, list, left)
else
  if #rows > 0 then
    redis.call('UNLINK', list)
  end
  redis.call('ZREM', held, list)
  redis.call('HDEL', heldrows, list)
end

-- Wake one consumer if one of these messages is now the next.
for first, stored in pairs(keys) do
  local nearest = redis.call('ZRANGE', KEYS[first], 0, 0)[1]
  if stored[nearest] and redis.call('LLEN', KEYS[first + 6]) == 0 then
    redis.call('LPUSH', KEYS[first + 6], '1')
  end
end
return {#rows, left, refused}
