-- claims/release: end the leases of a group's claims, and fence whoever had the group.
--
-- KEYS[1] {name}HELD       ZSET    name of a list -> µs from which its messages are the queue's
-- KEYS[2] {name}CLAIMS:<group>  HASH  epoch, last, acked, forgotten, claiming, bytes
--
-- ARGV[1] epoch            integer 0..9007199254740991     0: whoever has the group now
-- ARGV[2] claims           at most 1000 names of lists of the group
--
-- Returns {'ok', epoch}: the new one; {'fenced', epoch}. The claims are given back, by
-- held/give_back, before anything else is taken.
-- Atomic because a claim must not be acked once a part of it is being given back.
-- Cost: O(claims log held lists).
local held, group = KEYS[1], KEYS[2]
local epoch, claims = tonumber(ARGV[1]), 2

local function outside(number, low, high)
  return not (number and number >= low and number <= high and number % 1 == 0)
end

if outside(epoch, 0, 9007199254740991) or #ARGV > 1001 then
  return redis.error_reply('ACKQ_ARGUMENT claims/release: an argument is out of range')
end

local current = tonumber(redis.call('HGET', group, 'epoch') or 0)
redis.call('ZCARD', held)
if epoch > 0 and epoch ~= current then
  return {'fenced', current}
end
redis.call('HDEL', group, 'claiming')
for i = claims, #ARGV do
  redis.call('ZADD', held, 'XX', '0', ARGV[i])
end
return {'ok', redis.call('HINCRBY', group, 'epoch', 1)}
