-- delay/claim_return: return the messages of a released claim, some of them in each call.
--
-- include: delay/keys
-- include: delay/claim_keys
--
-- ARGV[1] batch            integer 1..9007199254740991     the one of KEYS[12]
--
-- Returns {returned, left}: call again while some are left. Any client may do so, once
-- claims/release has set the claim's score to 0; other claims stay as they are. A message is ready
-- again since its former time, and this delivery does not count.
-- Atomic because a message must always be either leased or ready, never both.
-- Cost: O(messages log stored), at most 300; no body is read.
-- Roles: claimer, operator
local z, h, leases, extended, receives = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local wake, errors = KEYS[7], KEYS[8]
local claims, group, claim = KEYS[10], KEYS[11], KEYS[12]
local batch = tonumber(ARGV[1])

local CHUNK = 300 -- messages one call may return

-- include: outside, delay/nearest

if outside(batch, 1, 9007199254740991) or #KEYS ~= 12 then
  return redis.error_reply('ACKQ_ARGUMENT delay/claim_return: an argument is out of range')
end

redis.call('HLEN', h)
redis.call('ZCARD', leases)
redis.call('HLEN', extended)
redis.call('HLEN', receives)
redis.call('LLEN', wake)
redis.call('HLEN', errors)
local awaited = nearest(z)
local leased_until = 'lease:' .. ARGV[1]
local facts = redis.call('HMGET', group, leased_until)
local rows = redis.call('LLEN', claim)
if tonumber(redis.call('ZSCORE', claims, claim) or 1) ~= 0 then
  return {0, 0}
end
local base, before, renewed = string.match(facts[1] or '', '^(%d+):(%d+):(%d+)$')
base, before, renewed = tonumber(base), tonumber(before), tonumber(renewed)

-- include: delay/is_claimed, delay/split, delay/count_up

-- The first write frees memory, so that messages can be returned at maxmemory.
redis.call('ZREMRANGEBYRANK', claims, 1, 0)
local first = math.max(0, rows - CHUNK)
local times, keys = split(base and redis.call('LRANGE', claim, first, rows - 1) or {})
local scores = #keys > 0 and redis.call('ZMSCORE', z, unpack(keys)) or {}
local held = #keys > 0 and redis.call('ZMSCORE', leases, unpack(keys)) or {}
local counts = #keys > 0 and redis.call('HMGET', receives, unpack(keys)) or {}
local returned = 0
for i, key in ipairs(keys) do
  if is_claimed(first + i - 1, held[i], scores[i]) then
    local count = tonumber(counts[i] or 1) - 1
    redis.call('ZREM', leases, key)
    redis.call('ZADD', z, 'XX', times[i], key)
    if count > 0 then
      redis.call('HSET', receives, key, count)
    else
      redis.call('HDEL', receives, key)
      redis.call('HDEL', errors, key)
    end
    returned = returned + 1
  end
end
local left = base and first or 0
if left > 0 then
  redis.call('LTRIM', claim, 0, left - 1)
else
  redis.call('UNLINK', claim)
  redis.call('ZREM', claims, claim)
  redis.call('HDEL', group, leased_until)
end
if nearest(z) < awaited and redis.call('LLEN', wake) == 0 then
  redis.call('LPUSH', wake, '1')
end
count_up(1, 'released', returned)
return {returned, left}
