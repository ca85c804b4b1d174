-- members/leave: end a session, so that others take over its shares at once.
--
-- KEYS[1] {group}:members   ZSET    session -> its end, µs since the epoch
-- KEYS[2] {group}:group     HASH    generation, assigned, shares
-- KEYS[3] {group}:owners    HASH    share -> session
--
-- ARGV[1] session           text, as in members/heartbeat
--
-- Returns 1, or 0: there is no such session (any more).
-- Atomic because the fence must fall together with the session.
-- Cost: O(log members).
redis.call('HLEN', KEYS[2])
if redis.call('ZREM', KEYS[1], ARGV[1]) == 0 then
  return 0
end
redis.call('HINCRBY', KEYS[2], 'generation', 1)
return 1
