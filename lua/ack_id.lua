-- ack_id: delete messages by their bare ids, as the article's ack does. NOT FENCED: a late
-- call deletes the message even if another consumer holds it now.
--
-- KEYS[1] {name}BACKUP     ZSET    lease key -> deadline, µs since the epoch
-- KEYS[2] {name}CONTEXT    HASH    lease key -> the message as it was pushed
-- KEYS[3] {name}RECEIVES   HASH    lease key -> receive count, of messages that came back
-- KEYS[4] {name}EXTENDED   HASH    lease key -> receipt:deadline, of extended leases
--
-- ARGV[1] ids              1..4000 lease keys
--
-- Returns how many messages in flight were deleted; what waits in DELAYED stays.
-- Atomic because lease and body go together.
-- Cost: O(ids log in-flight).
local backup, context, receives, extended = KEYS[1], KEYS[2], KEYS[3], KEYS[4]

if #ARGV < 1 or #ARGV > 4000 then
  return redis.error_reply('ACKQ_ARGUMENT ack_id: 1..4000 ids')
end
redis.call('HLEN', context)
redis.call('HLEN', receives)
redis.call('HLEN', extended)
local settled = 0
for _, key in ipairs(ARGV) do
  if redis.call('ZREM', backup, key) == 1 then
    redis.call('HDEL', context, key)
    redis.call('HDEL', receives, key)
    redis.call('HDEL', extended, key)
    settled = settled + 1
  end
end
return settled
