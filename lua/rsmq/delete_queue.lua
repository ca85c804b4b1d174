-- delete_queue: delete a queue with everything in it.
--
-- include: rsmq/keys
-- KEYS[4] {ns}:{q}:Q.waiters  STRING  exists while a consumer may be waiting; ackq's own
-- KEYS[5] {ns}:{q}:Q.dead     STREAM  dead letters; ackq's own
-- KEYS[6] {ns}:{q}:Q.errors   HASH    why receives of messages failed; ackq's own
-- KEYS[7] {ns}:QUEUES      SET     names of the queues
--
-- ARGV[1] name             string  of the queue
--
-- Returns 'ok', or 'missing' if there was neither a hash nor a zset.
-- Atomic because half a queue is an error to all its clients.
-- Cost: O(1); UNLINK frees the memory in the background.
-- Roles: operator
local zset, hash, wake, waiters = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local dead, errors, queues, name = KEYS[5], KEYS[6], KEYS[7], ARGV[1]

redis.call('SCARD', queues)
local found = redis.call('UNLINK', hash, zset)
redis.call('UNLINK', wake, waiters, dead, errors)
redis.call('SREM', queues, name)
return found > 0 and 'ok' or 'missing'
