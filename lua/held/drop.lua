-- held/drop: delete the messages of a held list. THEY ARE LOST.
--
-- KEYS[1] {name}HELD       ZSET    held list -> µs from which its messages are the queue's
-- KEYS[2] {name}HELDROWS   HASH    held list -> messages in it
-- KEYS[3] {name}CLAIM:<group>:<batch>  LIST  the list, or one of STAGED:
--
-- Returns how many messages were deleted. A key that is not held or is no list stays.
-- Atomic because a list that is no longer held may belong to another program.
-- Cost: O(log held lists); UNLINK frees the memory in the background.
local held, heldrows, list = KEYS[1], KEYS[2], KEYS[3]

redis.call('HLEN', heldrows)
local deleted = 0
if redis.call('ZREM', held, list) == 1 then
  redis.call('HDEL', heldrows, list)
  if redis.call('TYPE', list).ok == 'list' then
    deleted = redis.call('LLEN', list)
    redis.call('UNLINK', list)
  end
end
return deleted
