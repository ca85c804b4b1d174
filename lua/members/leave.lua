-- members/leave: end a session, so that others take over its partitions at once.
--
-- KEYS[1] {group}:members   ZSET    session -> its end, µs since the epoch
-- KEYS[2] {group}:group     HASH    generation, assigned, shares
-- KEYS[3] {group}:owners    HASH    share -> session
--
-- ARGV[1] session           text, as in members/heartbeat
--
-- Returns 1, or 0 if there is no such session.
-- Atomic because the session must be fenced at the moment when it ends.
-- Cost: O(log members).
-- Roles: consumer, worker
redis.call('HLEN', KEYS[2])
if redis.call('ZREM', KEYS[1], ARGV[1]) == 0 then
  return 0
end
redis.call('HINCRBY', KEYS[2], 'generation', 1)
return 1
