-- list: return some of the workers of a queue.
--
-- include: worker/keys
--
-- ARGV[1] cursor           text    0, or the cursor of the reply before
--
-- Returns {cursor, now}: 0 at the end, and the server's time in µs; then for each worker its name,
-- when its entry ends, its record, and the order that it has not received yet or an empty text. A
-- worker may be returned twice; one whose entry has ended is not.
-- Atomic because a record must not be seen without its end.
-- Cost: O(100), at most 1 MiB of records: Redis returns up to 128 of a small set at once.
-- Roles: monitor, watcher, viewer, operator, doctor
local seen, doing, orders = KEYS[1], KEYS[2], KEYS[3]
local cursor = tonumber(ARGV[1])

if not cursor then
  return redis.error_reply('ACKQ_ARGUMENT list: the cursor is no number')
end

redis.call('HLEN', doing)
redis.call('HLEN', orders)
-- include: now
local page = redis.call('ZSCAN', seen, ARGV[1], 'COUNT', 100)
local found = { page[1], now }
for i = 1, #page[2], 2 do
  local worker, ends = page[2][i], tonumber(page[2][i + 1])
  if ends > now then
    found[#found + 1] = worker
    found[#found + 1] = string.format('%.0f', ends)
    -- Longer ones are not of worker/heartbeat, and would block the server.
    local fits = redis.call('HSTRLEN', doing, worker) <= 8192
    found[#found + 1] = fits and redis.call('HGET', doing, worker) or ''
    found[#found + 1] = redis.call('HGET', orders, worker) or ''
  end
end
return found
