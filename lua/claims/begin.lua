-- claims/begin: take a group of claims over, and fence whoever had it.
--
-- KEYS[1] {name}CLAIMS:<group>  HASH  what is known of the group
--
-- Returns {epoch, last, acked}: the epoch that every later call must show, the highest batch
-- that was claimed, and the highest that was acked; 0 where there is none.
-- Atomic because two processes must never get one epoch.
-- Cost: O(1).
local group = KEYS[1]

-- A claim that its process did not finish is finished as it is. This frees, as a first write must.
redis.call('HDEL', group, 'claiming')
local epoch = redis.call('HINCRBY', group, 'epoch', 1)
local facts = redis.call('HMGET', group, 'last', 'acked')
return {epoch, tonumber(facts[1] or 0), tonumber(facts[2] or 0)}
