-- delay/claim: lease ready messages where they are, as a claim: one batch of a group.
--
-- include: delay/keys
-- include: delay/claim_keys
--
-- ARGV[1] epoch            integer 1..9007199254740991         that claims/begin returned
-- ARGV[2] batch            integer 1..9007199254740991         the one of KEYS[12]
-- ARGV[3] messages         integer 1..9007199254740991         of the whole claim
-- ARGV[4] size             integer 0..9007199254740991         bytes of the whole claim; 0: any
-- ARGV[5] timeout          integer 1000000..315360000000000    µs, lease of the claim
-- ARGV[6] jitter           integer 0..65535                    µs, drawn for each call
--
-- Returns {'ok', rows, more 0|1}: rows of the claim so far; call again with the same arguments
-- while there are more. The call may be resent after a lost reply. {'empty'}: no message is ready,
-- and the batch is used up. {'taken', batch}: the batch was used before; use a higher one.
-- {'fenced', epoch}.
-- Atomic because a message must never be leased twice. A lease moves the ready time to its
-- deadline, so that consumers that know no claims wait too, and take the messages when it ends.
-- The list holds no message: if it is lost, the leases end.
-- Cost: O(messages log stored), at most 300; no body is read.
-- Roles: claimer
local z, h, leases, extended, receives = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local dead, errors = KEYS[6], KEYS[8]
local claims, group, claim = KEYS[10], KEYS[11], KEYS[12]
local epoch, batch, messages = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local size, timeout, jitter = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])

local CHUNK = 300 -- messages one call may lease
local DEAD_LETTER_BUDGET = 100 -- dead letters written in one call
local KEPT = 604800000 -- ms for which the list outlives its leases

-- include: outside

if outside(epoch, 1, 9007199254740991) or outside(batch, 1, 9007199254740991)
  or outside(messages, 1, 9007199254740991) or outside(size, 0, 9007199254740991)
  or outside(timeout, 1000000, 315360000000000) or outside(jitter, 0, 65535) or #KEYS ~= 12 then
  return redis.error_reply('ACKQ_ARGUMENT delay/claim: an argument is out of range')
end

-- include: now

-- Check every type before the first write, so that an error means that nothing was done.
redis.call('HLEN', h)
redis.call('ZCARD', leases)
redis.call('HLEN', receives)
redis.call('XLEN', dead)
redis.call('HLEN', errors)
local has_extended = redis.call('HLEN', extended) > 0
local leased_until = 'lease:' .. ARGV[2]
local facts = redis.call('HMGET', group, 'epoch', 'last', 'acked', 'claiming', 'bytes',
  leased_until)
local last, acked = tonumber(facts[2] or 0), tonumber(facts[3] or 0)
local rows = redis.call('LLEN', claim)
local score = tonumber(redis.call('ZSCORE', claims, claim) or 0)

if tonumber(facts[1] or 0) ~= epoch then
  return {'fenced', tonumber(facts[1] or 0)}
end
if tonumber(facts[4] or 0) ~= batch or batch <= acked then
  if batch == last and rows > 0 and score > 0 then
    return {'ok', rows, 0} -- the resent call of a claim that is complete
  elseif batch == last and batch > acked and rows == 0 and facts[5] == '0' then
    return {'empty'} -- the resent call of one that found nothing
  end
  if batch <= last or batch <= acked or rows > 0 then
    return {'taken', math.max(batch, last, acked)}
  end
end

local base, before, renewed = string.match(facts[6] or '', '^(%d+):(%d+):(%d+)$')
base, before, renewed = tonumber(base), tonumber(before), tonumber(renewed)
if rows == 0 then
  base, before, renewed = now + timeout + jitter, now + timeout + jitter, 0
elseif before - now < timeout / 2 then
  -- More messages would get leases that end too soon. They go into the next claim.
  redis.call('HDEL', group, 'claiming')
  return {'ok', rows, 0}
end

-- include: delay/lease_of, delay/score_of, delay/count_up

local room = math.min(CHUNK, messages - rows)
local listed = redis.call('ZRANGEBYSCORE', z, '-inf', score_of(now), 'WITHSCORES', 'LIMIT', 0,
  room)
local keys = {}
for i = 1, #listed, 2 do
  keys[#keys + 1] = listed[i]
end
local held = #keys > 0 and redis.call('ZMSCORE', leases, unpack(keys)) or {}
local counts = #keys > 0 and redis.call('HMGET', receives, unpack(keys)) or {}
local bytes = rows > 0 and tonumber(facts[5] or 0) or 0
local taken, returned, dead_lettered, ended, cut = 0, 0, 0, 0, false

-- include: enough, use_up, write_letter

local function dead_letter(key, count)
  write_letter(dead, {key = key, body = '', reason = 'body missing', count = count})
  redis.call('ZREM', z, key)
  ended = ended + redis.call('ZREM', leases, key)
  redis.call('HDEL', extended, key)
  redis.call('HDEL', receives, key)
  redis.call('HDEL', errors, key)
  dead_lettered = dead_lettered + 1
end

-- A shortened lease ends before its receipt. A new lease may get exactly that deadline, but must
-- not have the same receipt.
local function is_receipt(key, lease)
  local note = redis.call('HGET', extended, key)
  return note and string.find(note, lease .. ':', 1, true) == 1
end

-- The first write frees memory, even if only nothing: at maxmemory Redis rejects a script whose
-- first write may allocate, and a full delay queue could never drain.
redis.call('ZREMRANGEBYRANK', z, 1, 0)
local ready, leased, recounted, entries = {}, {}, {}, {}
for i, key in ipairs(keys) do
  local until_ = tonumber(held[i] or nil)
  local count = 1 + (tonumber(counts[i] or nil) or (until_ and 1 or 0))
  local deadline = lease_of(rows + taken)
  local lease = string.format('%.0f', deadline)
  if enough() or dead_lettered >= DEAD_LETTER_BUDGET then
    cut = not enough()
    break
  elseif until_ and until_ > now then
    -- A client without leases changed the ready time: as in take.lua, wait for the end.
    redis.call('ZADD', z, 'XX', score_of(until_ + 1), key)
  elseif redis.call('HEXISTS', h, key) == 0 then
    dead_letter(key, count - 1)
  elseif has_extended and is_receipt(key, lease) then
    -- The next claim, or the next call if this claim is empty, gets another microsecond.
    room, cut = 0, rows + taken == 0
    break
  else
    taken = taken + 1
    ready[2 * taken - 1], ready[2 * taken] = score_of(deadline), key
    leased[2 * taken - 1], leased[2 * taken] = lease, key
    entries[taken] = listed[2 * i] .. ':' .. key
    returned = returned + (until_ and 1 or 0)
    if count > 1 then
      recounted[#recounted + 1] = key
      recounted[#recounted + 1] = count
    end
    if has_extended then
      redis.call('HDEL', extended, key)
    end
    bytes = bytes + redis.call('HSTRLEN', h, key)
  end
end

rows = rows + taken
local more = cut or (#keys == room and rows < messages and not enough())
if taken > 0 then
  redis.call('ZADD', z, unpack(ready))
  redis.call('ZADD', leases, unpack(leased))
  redis.call('RPUSH', claim, unpack(entries))
  if #recounted > 0 then
    redis.call('HSET', receives, unpack(recounted))
  end
end
if rows > 0 then
  redis.call('ZADD', claims, string.format('%.0f', base), claim)
  redis.call('PEXPIRE', claim, string.format('%.0f', math.ceil((base - now) / 1000) + KEPT))
  redis.call('HSET', group, 'last', string.format('%.0f', batch),
    'bytes', string.format('%.0f', bytes),
    leased_until, string.format('%.0f:%.0f:%.0f', base, before, renewed))
  if more then
    redis.call('HSET', group, 'claiming', string.format('%.0f', batch))
  else
    redis.call('HDEL', group, 'claiming')
  end
end
count_up(1, 'returned', returned)
count_up(1, 'dead:body missing', dead_lettered)
count_up(1, 'ended', ended)
if rows == 0 and not more then
  return use_up()
end
return {'ok', rows, more and 1 or 0}
