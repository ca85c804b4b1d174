-- order: leave an order for workers; each receives it with its next heartbeat.
--
-- KEYS[1] {name}WORKERS:SEEN    ZSET  worker -> when its entry ends, µs since the epoch; expires
-- KEYS[2] {name}WORKERS:ORDERS  HASH  worker -> time in µs, a colon, quiet|resume|stop; expires
--
-- ARGV[1] order            quiet|resume|stop
-- ARGV[2] workers          1..100 workers, as in worker/heartbeat
--
-- Returns for each worker 1, or 0 if it is not listed: then it gets no order. A later order
-- replaces an earlier one. An order that is not received is deleted after a day, so a worker that
-- was frozen for less still receives it.
-- Atomic because a worker that has left must get no order.
-- Cost: O(workers).
-- Roles: operator, doctor
local seen, orders = KEYS[1], KEYS[2]
local order = ARGV[1]
local KNOWN = { quiet = true, resume = true, stop = true }

if not order or not KNOWN[order] or #ARGV < 2 or #ARGV > 101 then
  return redis.error_reply('ACKQ_ARGUMENT order: quiet, resume or stop, then 1 to 100 workers')
end

redis.call('HLEN', orders)
-- include: now
local found = {}
for i = 2, #ARGV do
  local ends = tonumber(redis.call('ZSCORE', seen, ARGV[i]) or 0)
  found[i - 1] = ends > now and 1 or 0
  if ends > now then
    redis.call('HSET', orders, ARGV[i], string.format('%.0f', now) .. ':' .. order)
    redis.call('PEXPIRE', orders, 86400000)
  end
end
return found
