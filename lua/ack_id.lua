-- ack_id: delete messages by their bare ids, like the article's ack (see README.md). NOT FENCED: a
-- late call deletes the message even if it is leased to another consumer now.
--
-- KEYS[1] {name}BACKUP     ZSET    lease key -> deadline, µs since the epoch
-- KEYS[2] {name}CONTEXT    HASH    lease key -> the message as it was pushed
-- KEYS[3] {name}RECEIVES   HASH    lease key -> receive count of redelivered messages
-- KEYS[4] {name}EXTENDED   HASH    lease key -> receipt:deadline of extended leases
-- KEYS[5] {name}ERRORS     HASH    lease key -> why deliveries of it failed; see nack.lua
-- KEYS[6] {name}COUNTERS   HASH    counts, kept while a client watches; see watch.lua
--
-- ARGV[1] ids              1..4000 lease keys
--
-- Returns {deleted, looked at}: messages in flight that were deleted, and ids looked at; pass the
-- other ids in the next call. Messages in DELAYED stay.
-- Atomic because a lease and its body are deleted together.
-- Cost: O(ids log in-flight); Redis frees the bodies at once, so at most 8 MiB plus one message.
-- Roles: consumer, worker, doctor
local backup, context, receives, extended = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local errors, counters = KEYS[5], KEYS[6]

local FREED = 8388608 -- bytes of bodies one call may delete

if #ARGV < 1 or #ARGV > 4000 then
  return redis.error_reply('ACKQ_ARGUMENT ack_id: 1..4000 ids')
end
redis.call('HLEN', context)
redis.call('HLEN', receives)
redis.call('HLEN', extended)
redis.call('HLEN', errors)
local watched = redis.call('HEXISTS', counters, 'since') == 1

-- Parts: count_up
-- Count for those who watch. A field that is no number is left alone.
local function count_up(field, number)
  if watched == nil and number > 0 then
    watched = redis.pcall('HEXISTS', counters, 'since') == 1
  end
  if watched and number > 0 then
    redis.pcall('HINCRBY', counters, field, number)
  end
end
-- End of parts (edit them in lua/parts)

local settled, looked, freed = 0, 0, 0
for _, key in ipairs(ARGV) do
  if freed >= FREED then
    break
  end
  looked = looked + 1
  if redis.call('ZREM', backup, key) == 1 then
    freed = freed + redis.call('HSTRLEN', context, key)
    redis.call('HDEL', context, key)
    redis.call('HDEL', receives, key)
    redis.call('HDEL', extended, key)
    redis.call('HDEL', errors, key)
    settled = settled + 1
  end
end
count_up('acked', settled)
return {settled, looked}
