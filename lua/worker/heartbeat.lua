-- heartbeat: list a worker, or keep it listed, and return an operator's order for it.
--
-- include: worker/keys
--
-- ARGV[1] worker           1..256 bytes                drawn by the worker, unlike any other
-- ARGV[2] record           1..8192 bytes               what to show of it
-- ARGV[3] lifetime         integer 1000..3600000000    µs that the entry lasts
-- ARGV[4] obeyed           text                        order it last received; default none
--
-- Returns the order that waits for this worker, or an empty text. An order waits until ``obeyed``
-- confirms it, so a lost reply loses none.
-- Atomic because a newer order must not be deleted with the one that is confirmed.
-- Cost: O(log workers); it also deletes up to 100 entries that have ended.
-- Roles: worker
local seen, doing, orders = KEYS[1], KEYS[2], KEYS[3]
local worker, record, lifetime, obeyed = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4] or ''

-- include: outside

if not record or #worker < 1 or #worker > 256 or #record < 1 or #record > 8192
  or outside(lifetime, 1000, 3600000000) then
  return redis.error_reply('ACKQ_ARGUMENT heartbeat: an argument is out of range')
end

redis.call('HLEN', doing)
local order = redis.call('HGET', orders, worker)
-- include: now
-- The first write frees memory, even if only nothing: on a full server, too, an operator must see
-- the workers.
redis.call('ZREMRANGEBYRANK', seen, 1, 0)
if order and order == obeyed then
  redis.call('HDEL', orders, worker)
  order = false
end
local ended = redis.call('ZRANGEBYSCORE', seen, '-inf', string.format('%.0f', now), 'LIMIT', 0, 100)
if #ended > 0 then
  redis.call('ZREM', seen, unpack(ended))
  redis.call('HDEL', doing, unpack(ended))
end
redis.call('ZADD', seen, string.format('%.0f', now + lifetime), worker)
redis.call('HSET', doing, worker, record)
-- The keys outlive every entry, but not by long.
local last = redis.call('ZRANGE', seen, -1, -1, 'WITHSCORES')
local left = string.format('%.0f', math.ceil((tonumber(last[2]) - now) / 1000) + 1)
redis.call('PEXPIRE', seen, left)
redis.call('PEXPIRE', doing, left)
return order or ''
