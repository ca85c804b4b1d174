-- claims/beat: renew the leases of a group's claims.
--
-- KEYS[1] {name}HELD       ZSET    held list -> µs from which its messages are the queue's
-- KEYS[2] {name}CLAIMS:<group>  HASH  state of the group
--
-- ARGV[1] epoch            integer 1..9007199254740991         that claims/begin returned
-- ARGV[2] timeout          integer 1000000..315360000000000    µs from now
-- ARGV[3] claims           at most 1000 names of lists of the group, the newest first
--
-- Returns {'ok', renewed}; {'fenced', epoch}. A claim that is being returned is not renewed.
-- Atomic because a lease must not end between the look and the renewal.
-- Cost: O(claims log held lists).
-- Roles: claimer, pipeline, doctor
local held, group = KEYS[1], KEYS[2]
local epoch, timeout, claims = tonumber(ARGV[1]), tonumber(ARGV[2]), 3

-- include: outside

if outside(epoch, 1, 9007199254740991) or outside(timeout, 1000000, 315360000000000)
  or #ARGV > 1002 then
  return redis.error_reply('ACKQ_ARGUMENT claims/beat: an argument is out of range')
end

-- include: now
local current = tonumber(redis.call('HGET', group, 'epoch') or 0)
redis.call('ZCARD', held)
if current ~= epoch then
  return {'fenced', current}
end
-- The first write frees nothing but counts as freeing, so that leases are renewed at maxmemory.
redis.call('ZREMRANGEBYRANK', held, 1, 0)
local renewed = 0
for i = claims, #ARGV do
  if tonumber(redis.call('ZSCORE', held, ARGV[i]) or 0) > 0 then
    -- The oldest claim ends last, so that it is returned last and comes to the front of the queue.
    redis.call('ZADD', held, 'XX', string.format('%.0f', now + timeout + i - claims), ARGV[i])
    renewed = renewed + 1
  end
end
return {'ok', renewed}
