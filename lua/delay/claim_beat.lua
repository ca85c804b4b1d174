-- delay/claim_beat: renew the leases of a claim, some of them in each call.
--
-- include: delay/keys
-- include: delay/claim_keys
--
-- ARGV[1] epoch            integer 1..9007199254740991         that claims/begin returned
-- ARGV[2] batch            integer 0..9007199254740991         the one of KEYS[12]
-- ARGV[3] timeout          integer 1000000..315360000000000    µs from now
--
-- Returns {'ok', renewed, more 0|1}: call again while there are more; {'fenced', epoch}. Leases
-- that last for two thirds of the timeout or longer stay as they are, since each costs two writes.
-- A claim that is being returned, or that does not exist, is not renewed.
-- Atomic because a lease must not end between the look and the renewal.
-- Cost: O(messages log stored), at most 300.
-- Roles: claimer
local z, leases, claims, group, claim = KEYS[1], KEYS[3], KEYS[10], KEYS[11], KEYS[12]
local epoch, batch, timeout = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])

local CHUNK = 300 -- messages one call may renew
local KEPT = 604800000 -- ms for which the list outlives its leases

-- include: outside

if outside(epoch, 1, 9007199254740991) or outside(batch, 0, 9007199254740991)
  or outside(timeout, 1000000, 315360000000000) or #KEYS ~= 12 then
  return redis.error_reply('ACKQ_ARGUMENT delay/claim_beat: an argument is out of range')
end

-- include: now
redis.call('ZCARD', z)
redis.call('ZCARD', leases)
local leased_until = 'lease:' .. ARGV[2]
local facts = redis.call('HMGET', group, 'epoch', leased_until)
local rows = redis.call('LLEN', claim)
local score = tonumber(redis.call('ZSCORE', claims, claim) or 0)
if tonumber(facts[1] or 0) ~= epoch then
  return {'fenced', tonumber(facts[1] or 0)}
end
local base, before, renewed = string.match(facts[2] or '', '^(%d+):(%d+):(%d+)$')
base, before, renewed = tonumber(base), tonumber(before), tonumber(renewed)
if rows == 0 or score == 0 or not base then
  return {'ok', 0, 0}
end
if renewed == 0 then
  if before - now >= timeout * 2 / 3 then
    return {'ok', 0, 0}
  end
  base = now + timeout
end

-- include: delay/is_claimed, delay/split, delay/score_of

-- The first write frees nothing but counts as freeing, so that leases are renewed at maxmemory.
redis.call('ZREMRANGEBYRANK', claims, 1, 0)
local _, keys = split(redis.call('LRANGE', claim, renewed, renewed + CHUNK - 1))
local scores = #keys > 0 and redis.call('ZMSCORE', z, unpack(keys)) or {}
local held = #keys > 0 and redis.call('ZMSCORE', leases, unpack(keys)) or {}
local ready, leased = {}, {}
for i, key in ipairs(keys) do
  local index = renewed + i - 1
  if is_claimed(index, held[i], scores[i]) then
    ready[#ready + 1], ready[#ready + 2] = score_of(base + index), key
    leased[#leased + 1], leased[#leased + 2] = string.format('%.0f', base + index), key
  else
    -- Forget it: another consumer's lease may end when this one would.
    redis.call('LSET', claim, index, '')
  end
end
if #ready > 0 then
  redis.call('ZADD', z, 'XX', unpack(ready))
  redis.call('ZADD', leases, 'XX', unpack(leased))
end
renewed = renewed + #keys
local more = renewed < rows
if not more then
  before, renewed = base, 0
end
redis.call('ZADD', claims, 'XX', string.format('%.0f', base), claim)
local expiry = math.ceil(math.max(base - now, 0) / 1000) + KEPT
redis.call('PEXPIRE', claim, string.format('%.0f', expiry))
redis.call('HSET', group, leased_until, string.format('%.0f:%.0f:%.0f', base, before, renewed))
return {'ok', #ready / 2, more and 1 or 0}
