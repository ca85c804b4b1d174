-- delay/claim_ack: delete the messages of a claim, some of them in each call.
--
-- include: delay/keys
-- include: delay/claim_keys
--
-- ARGV[1] epoch            integer 1..9007199254740991     that claims/begin returned
-- ARGV[2] batch            integer 0..9007199254740991     the one of KEYS[12]
-- ARGV[3] up_to            integer 0..9007199254740991     acked, with all before it
--
-- Returns {'ok', deleted, left}: call again while some are left; 0 deleted if the claim was acked
-- before or is being returned; {'fenced', epoch}. Messages that were canceled, or that other
-- consumers took after the lease had ended, stay as they are.
-- Atomic because a lease must not end between the look and the deletion.
-- Cost: O(messages log stored), at most 300; Redis frees the bodies at once, so at most 8 MiB
-- plus one message.
-- Roles: claimer
local z, h, leases, extended, receives = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local errors, claims, group, claim = KEYS[8], KEYS[10], KEYS[11], KEYS[12]
local epoch, batch, up_to = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])

local CHUNK = 300 -- messages one call may delete
local FREED = 8388608 -- bytes of bodies one call may delete

-- include: outside

if outside(epoch, 1, 9007199254740991) or outside(batch, 0, 9007199254740991)
  or outside(up_to, 0, 9007199254740991) or #KEYS ~= 12 then
  return redis.error_reply('ACKQ_ARGUMENT delay/claim_ack: an argument is out of range')
end

redis.call('ZCARD', z)
redis.call('HLEN', h)
redis.call('ZCARD', leases)
local has_side = redis.call('HLEN', extended) + redis.call('HLEN', receives)
  + redis.call('HLEN', errors) > 0
local leased_until = 'lease:' .. ARGV[2]
local facts = redis.call('HMGET', group, 'epoch', 'acked', leased_until)
local rows = redis.call('LLEN', claim)
local score = tonumber(redis.call('ZSCORE', claims, claim) or 0)
if tonumber(facts[1] or 0) ~= epoch then
  return {'fenced', tonumber(facts[1] or 0)}
end
local base, before, renewed = string.match(facts[3] or '', '^(%d+):(%d+):(%d+)$')
base, before, renewed = tonumber(base), tonumber(before), tonumber(renewed)

-- include: delay/is_claimed, delay/split, delay/count_up

redis.call('ZREMRANGEBYRANK', claims, 1, 0)
if up_to > tonumber(facts[2] or 0) then
  redis.call('HSET', group, 'acked', string.format('%.0f', up_to))
end
if score == 0 then
  return {'ok', 0, 0}
end
-- From the end, so that the places of the others stay the same.
local first = math.max(0, rows - CHUNK)
local _, keys = split(base and redis.call('LRANGE', claim, first, rows - 1) or {})
local scores = #keys > 0 and redis.call('ZMSCORE', z, unpack(keys)) or {}
local held = #keys > 0 and redis.call('ZMSCORE', leases, unpack(keys)) or {}
local done, freed, left = {}, 0, rows
for i = #keys, 1, -1 do
  if freed >= FREED then
    break
  end
  left = first + i - 1
  if is_claimed(left, held[i], scores[i]) then
    done[#done + 1] = keys[i]
    freed = freed + redis.call('HSTRLEN', h, keys[i])
  end
end
if #done > 0 then
  redis.call('ZREM', z, unpack(done))
  redis.call('HDEL', h, unpack(done))
  redis.call('ZREM', leases, unpack(done))
  if has_side then
    redis.call('HDEL', extended, unpack(done))
    redis.call('HDEL', receives, unpack(done))
    redis.call('HDEL', errors, unpack(done))
  end
end
if left > 0 and base then
  redis.call('LTRIM', claim, 0, left - 1)
else
  left = 0
  redis.call('UNLINK', claim)
  redis.call('ZREM', claims, claim)
  redis.call('HDEL', group, leased_until)
end
count_up(1, 'acked', #done)
return {'ok', #done, left}
