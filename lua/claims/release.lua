-- claims/release: end the leases of a group's claims, and fence the group's driver.
--
-- KEYS[1] {name}HELD       ZSET    held list -> µs from which its messages are the queue's
-- KEYS[2] {name}CLAIMS:<group>  HASH  state of the group
--
-- ARGV[1] epoch            integer 0..9007199254740991     0: of any driver
-- ARGV[2] claims           at most 1000 names of lists of the group
--
-- Returns {'ok', epoch}: the new one; {'fenced', epoch}. May be resent. held/give_back returns the
-- claims before any other message is taken.
-- Atomic because a claim must not be acked once part of it is being returned.
-- Cost: O(claims log held lists).
-- Roles: claimer, pipeline, operator, doctor
local held, group = KEYS[1], KEYS[2]
local epoch, claims = tonumber(ARGV[1]), 2

-- include: outside

if outside(epoch, 0, 9007199254740991) or #ARGV > 1001 then
  return redis.error_reply('ACKQ_ARGUMENT claims/release: an argument is out of range')
end

local facts = redis.call('HMGET', group, 'epoch', 'released')
local current = tonumber(facts[1] or 0)
redis.call('ZCARD', held)
-- A resent call finds the epoch that it raised itself.
local again = epoch > 0 and tonumber(facts[2] or 0) == epoch and current == epoch + 1
if epoch > 0 and epoch ~= current and not again then
  return {'fenced', current}
end
redis.call('HDEL', group, 'claiming')
for i = claims, #ARGV do
  redis.call('ZADD', held, 'XX', '0', ARGV[i])
end
if not again then
  redis.call('HSET', group, 'released', string.format('%.0f', current))
  current = redis.call('HINCRBY', group, 'epoch', 1)
end
return {'ok', current}
