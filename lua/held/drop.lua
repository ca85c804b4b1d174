-- held/drop: delete the messages of a held list. THEY ARE LOST.
--
-- KEYS[1] {name}HELD       ZSET    held list -> µs from which its messages are the queue's
-- KEYS[2] {name}HELDROWS   HASH    held list -> messages in it
-- KEYS[3] {name}CLAIM:<group>:<batch>  LIST  the list, or one of STAGED:
-- KEYS[4] {name}COUNTERS   HASH    counts, kept while a client watches; see watch.lua
--
-- Returns how many messages were deleted. A key that is not held or is no list stays.
-- Atomic because a list that is no longer held may belong to another program.
-- Cost: O(log held lists); UNLINK frees the memory in the background.
-- Roles: operator, doctor
local held, heldrows, list, counters = KEYS[1], KEYS[2], KEYS[3], KEYS[4]

redis.call('HLEN', heldrows)
local watched = redis.call('HEXISTS', counters, 'since') == 1

-- include: count_up, is_claim

local deleted = 0
if redis.call('ZREM', held, list) == 1 then
  redis.call('HDEL', heldrows, list)
  if redis.call('TYPE', list).ok == 'list' then
    deleted = redis.call('LLEN', list)
    redis.call('UNLINK', list)
  end
end
count_up('dropped', deleted)
count_up('ended', is_claim(list) and deleted or 0)
return deleted
