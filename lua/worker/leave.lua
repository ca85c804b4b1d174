-- leave: delete a worker that has ended from the list of workers.
--
-- include: worker/keys
--
-- ARGV[1] worker           1..256 bytes                as in worker/heartbeat
--
-- Returns 1, or 0 if it was not listed.
-- Atomic because an entry must not be seen in part.
-- Cost: O(log workers).
-- Roles: worker
local seen, doing, orders = KEYS[1], KEYS[2], KEYS[3]
local worker = ARGV[1]

if not worker then
  return redis.error_reply('ACKQ_ARGUMENT leave: name a worker')
end

redis.call('HLEN', doing)
redis.call('HLEN', orders)
local listed = redis.call('ZREM', seen, worker)
redis.call('HDEL', doing, worker)
redis.call('HDEL', orders, worker)
return listed
