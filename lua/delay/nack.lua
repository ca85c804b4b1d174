-- delay/nack: return messages for redelivery after a delay, or move them to the dead letters:
-- those that were delivered too often, or all.
--
-- include: delay/fenced_keys
--
-- ARGV[1] session           of the consumer; empty: partitions are not assigned
-- ARGV[2] way               nack|release|reject  release: this delivery does not count; reject:
--                           move all to the dead letters
-- ARGV[3] max_receives      integer 0..1000000  of a nack; 0: no limit
-- ARGV[4] reason            text of at most 1024 bytes, of a reject
-- ARGV[5] returned          groups of: position of the partition from 1, receipt, delay µs
--                           0..3153600000000000, size 1..4000, then size message keys. After the
--                           last may follow: errors, then pairs of a position and why the messages
--                           up to it failed, one line of at most 8192 bytes; empty: no error
--
-- Returns {returned, position, position, ...}: how many were returned or rejected, then the
-- positions, from 1, of refused keys: the session was fenced, another consumer has the lease or,
-- for a reject, the message waits for redelivery. Negative: the key waits already, or is gone.
-- Either this call was resent after a lost reply, or another consumer settled the message; only the
-- caller knows which.
-- A 0 and a position after them: pass the keys from there on in the next call. Of a nack, a final
-- array: the positions of those that became dead letters. A note of failures is tied to the body
-- and to the receive counts: it never applies to another message with the same key.
-- Atomic because a message must always be either leased, ready or dead, never two of them.
-- Cost: O(returned log stored): at most 100 messages; of those that become dead letters or have
-- an error, at most 1 MiB of bodies and notes plus one message. No other body is read. Each byte of
-- an earlier note counts as four.
-- Roles: consumer
local members, session = KEYS[1], ARGV[1]
local way, max_receives, reason = ARGV[2], tonumber(ARGV[3]), ARGV[4]

local BODY_BUDGET = 1048576 -- bytes of bodies one call may move
local MAX_IN_CALL = 100 -- messages one call may return or reject
local COUNTS_AS = {nack = 'nacked', release = 'released', reject = 'dead:rejected'}
local LATEST = 8589934591000000 -- µs; up to here a score in seconds tells microseconds apart

-- include: delay/named, delay/nearest

if not COUNTS_AS[way] or outside(max_receives, 0, 1000000) or not reason or #reason > 1024
  or #KEYS % STRIDE ~= 2 then
  return redis.error_reply('ACKQ_ARGUMENT delay/nack: a session; nack, release or reject;'
    .. ' max_receives; a reason of up to 1024 bytes')
end
local fenced = session ~= '' and not redis.call('ZSCORE', members, session)
-- include: now, delay/count_up, failures, add_failure, read_failures
-- include: write_letter, leave_from

for first = 3, #KEYS, STRIDE do
  redis.call('HLEN', KEYS[first + 1])
  redis.call('HLEN', KEYS[first + 3])
  redis.call('HLEN', KEYS[first + 4])
  redis.call('XLEN', KEYS[first + 5])
  redis.call('LLEN', KEYS[first + 6])
  redis.call('HLEN', KEYS[first + 7])
end
local held, refused, ends, position = named(fenced, 5, 0, 3153600000000000)
if not held then
  return redis.error_reply('ACKQ_ARGUMENT delay/nack: position, receipt, delay, size, keys')
end
local failures = read_failures(ends, position)
if not failures then
  return redis.error_reply('ACKQ_ARGUMENT delay/nack: errors are pairs of a position and a line')
end

local reply = {0}
for _, each in ipairs(refused) do
  local waits = each.score and (each.lease or fenced or way == 'reject')
  reply[#reply + 1] = waits and each.position or -each.position
end

-- The first write frees memory, so that messages can be returned and rejected at maxmemory.
local before, counts, bytes, died = {}, {}, 0, {}
for i, each in ipairs(held) do
  local first, key, failure = each.first, each.key, failures[each.position]
  if i > MAX_IN_CALL or bytes >= BODY_BUDGET then
    leave_from(each.position, reply)
    break
  end
  before[first] = before[first] or nearest(KEYS[first])
  local counted = counts[first] or {returned = 0, died = 0, missing = 0}
  counts[first] = counted
  if redis.call('ZREM', KEYS[first + 2], key) == 1 then
    local count = tonumber(redis.call('HGET', KEYS[first + 4], key) or 1)
    local dies = way == 'reject' or way == 'nack' and max_receives > 0 and count >= max_receives
    local body = redis.call('HEXISTS', KEYS[first + 1], key) == 1
    if body and (dies or failure) then
      body = redis.call('HGET', KEYS[first + 1], key)
      bytes = bytes + #body
    end
    reply[1] = reply[1] + 1
    counted.returned = counted.returned + 1
    redis.call('HDEL', KEYS[first + 3], key)
    local note = body and (failure or dies) and redis.call('HGET', KEYS[first + 7], key)
    local found = failures_of(note, body, count)
    -- A pattern reads the note, which takes longer than moving it.
    bytes = bytes + 4 * #(note or '')
    if failure then
      add_failure(found, count, failure)
    end
    if not body or dies then
      local why = way == 'reject' and reason or body and 'max receives' or 'body missing'
      write_letter(KEYS[first + 5],
        {key = key, body = body or '', reason = why, count = count, errors = found})
      redis.call('ZREM', KEYS[first], key)
      redis.call('HDEL', KEYS[first + 1], key)
      redis.call('HDEL', KEYS[first + 4], key)
      redis.call('HDEL', KEYS[first + 7], key)
      died[#died + 1] = each.position
      counted[body and 'died' or 'missing'] = counted[body and 'died' or 'missing'] + 1
    else
      local due = math.min(now + each.value, LATEST)
      redis.call('ZADD', KEYS[first], 'XX', string.format('%.6f', due / 1000000), key)
      count = way == 'nack' and count or count - 1
      if count == 0 then
        redis.call('HDEL', KEYS[first + 4], key)
        redis.call('HDEL', KEYS[first + 7], key)
      else
        if failure then
          note = mark(body) .. '\n' .. table.concat(found, '\n')
          redis.call('HSET', KEYS[first + 7], key, note)
          bytes = bytes + #note
        end
        redis.call('HSET', KEYS[first + 4], key, count)
      end
    end
  end
end

for first, awaited in pairs(before) do
  if nearest(KEYS[first]) < awaited and redis.call('LLEN', KEYS[first + 6]) == 0 then
    redis.call('LPUSH', KEYS[first + 6], '1')
  end
  count_up(first, COUNTS_AS[way], counts[first].returned)
  if way ~= 'reject' then
    count_up(first, 'dead:max receives', counts[first].died)
    count_up(first, 'dead:body missing', counts[first].missing)
  end
end
if #died > 0 and way ~= 'reject' then
  reply[#reply + 1] = died
end
return reply
