-- delay/reject: move messages whose leases the caller still has to the dead letters.
--
-- KEYS[1] {queue}:members   ZSET    session -> its end, µs since the epoch
-- KEYS[2] {queue}:group     HASH    generation, assigned, shares
-- then in groups of nine, one group a partition; {queue} is {queue}:P in a partitioned queue:
-- KEYS[3] {queue}:z         ZSET    message key -> ready time, s since the epoch
-- KEYS[4] {queue}:h         HASH    message key -> body
-- KEYS[5] {queue}:leases    ZSET    message key -> lease deadline, µs since the epoch
-- KEYS[6] {queue}:extended  HASH    message key -> receipt:deadline of extended leases
-- KEYS[7] {queue}:receives  HASH    message key -> receive count of redelivered messages
-- KEYS[8] {queue}:dead      STREAM  key, body, reason, count, time, errors of dead letters
-- KEYS[9] {queue}:wake      LIST    at most one token, for one waiting consumer
-- KEYS[10] {queue}:errors   HASH    message key -> why deliveries of it failed; see nack.lua
-- KEYS[11] {queue}:counters HASH    counts, kept while a client watches; see watch.lua
--
-- ARGV[1] session           of the consumer; empty: partitions are not assigned
-- ARGV[2] reason            text of at most 1024 bytes
-- ARGV[3] rejected          groups of: position of the partition from 1, receipt, size 1..4000,
--                           then size message keys. After the last may follow: errors, then pairs
--                           of a position and why; see nack.lua
--
-- Returns {rejected, position, position, ...}: how many were rejected, then the positions, from 1,
-- of refused keys: the session was fenced, another consumer has the lease, or the message waits for
-- redelivery. Negative: the key is gone. Either this reject was resent after a lost reply, or
-- another consumer settled the message; only the caller knows which.
-- A final 0 and a position: pass the keys from there on in the next call.
-- Atomic because a message must always be either dead or stored, never both.
-- Cost: O(rejected log stored): at most 100 messages and 1 MiB of bodies and notes, plus one
-- message; each byte of a note counts as four.
-- Roles: consumer
local members, session, reason, at = KEYS[1], ARGV[1], ARGV[2], 3

local STRIDE = 9
local BODY_BUDGET = 1048576 -- bytes of bodies one call may move
local MAX_IN_CALL = 100 -- messages one call may reject

-- include: outside

if not session or not reason or #reason > 1024 or #KEYS % STRIDE ~= 2 then
  return redis.error_reply('ACKQ_ARGUMENT delay/reject: a session, a reason up to 1024 bytes')
end
local fenced = session ~= '' and not redis.call('ZSCORE', members, session)
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]

-- include: delay/holds, delay/count_up, failures, add_failure, read_failures

local done, reply, position = {}, {0}, 0
while at <= #ARGV and ARGV[at] ~= 'errors' do
  local first, receipt = tonumber(ARGV[at]), ARGV[at + 1]
  local size = tonumber(ARGV[at + 2])
  if outside(first, 1, (#KEYS - 2) / STRIDE) or outside(tonumber(receipt), 0, 9007199254740991)
    or outside(size, 1, 4000) or at + 2 + size > #ARGV or #ARGV > 5000 then
    return redis.error_reply('ACKQ_ARGUMENT delay/reject: position, receipt, size, then keys')
  end
  first = (first - 1) * STRIDE + 3
  redis.call('HLEN', KEYS[first + 1])
  redis.call('HLEN', KEYS[first + 3])
  redis.call('HLEN', KEYS[first + 4])
  redis.call('XLEN', KEYS[first + 5])
  redis.call('HLEN', KEYS[first + 7])
  local scores = redis.call('ZMSCORE', KEYS[first], unpack(ARGV, at + 3, at + 2 + size))
  local leases = redis.call('ZMSCORE', KEYS[first + 2], unpack(ARGV, at + 3, at + 2 + size))
  for i = 1, size do
    local key = ARGV[at + 2 + i]
    position = position + 1
    if scores[i] and holds(first, receipt, key, leases[i], scores[i]) then
      done[#done + 1] = {first, key, position}
    else
      reply[#reply + 1] = scores[i] and position or -position
    end
  end
  at = at + 3 + size
end

local failures = read_failures(at, position)
if not failures then
  return redis.error_reply('ACKQ_ARGUMENT delay/reject: errors are pairs of a position and a line')
end

-- The first write frees memory, so that poison messages can be rejected at maxmemory.
local bytes, rejected = 0, {}
for i, each in ipairs(done) do
  local first, key, failure = each[1], each[2], failures[each[3]]
  if i > MAX_IN_CALL or bytes >= BODY_BUDGET then
    -- Leave the rest, and the results for it, to the next call.
    while #reply > 1 and math.abs(reply[#reply]) >= each[3] do
      reply[#reply] = nil
    end
    reply[#reply + 1] = 0
    reply[#reply + 1] = each[3]
    break
  end
  if redis.call('ZREM', KEYS[first + 2], key) == 1 then
    local body = redis.call('HGET', KEYS[first + 1], key) or ''
    local count = tonumber(redis.call('HGET', KEYS[first + 4], key) or 1)
    local note = redis.call('HGET', KEYS[first + 7], key) or ''
    local found = failures_of(note, body, count)
    -- A pattern reads the note, which takes longer than moving it.
    bytes = bytes + #body + 4 * #note
    if failure then
      add_failure(found, count, failure)
    end
    redis.call('XADD', KEYS[first + 5], '*', 'key', key, 'body', body, 'reason', reason,
      'count', count, 'time', string.format('%.0f', now), unpack(last_fields(found)))
    redis.call('ZREM', KEYS[first], key)
    redis.call('HDEL', KEYS[first + 1], key)
    redis.call('HDEL', KEYS[first + 3], key)
    redis.call('HDEL', KEYS[first + 4], key)
    redis.call('HDEL', KEYS[first + 7], key)
    reply[1] = reply[1] + 1
    rejected[first] = (rejected[first] or 0) + 1
  end
end
for first, number in pairs(rejected) do
  count_up(first, 'dead:rejected', number)
end
return reply
