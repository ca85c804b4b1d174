-- claims/begin: take over a group of claims, and fence its previous driver.
--
-- KEYS[1] {name}CLAIMS:<group>  HASH  state of the group
--
-- Returns {epoch, last, acked}: the epoch that every later call must pass, the highest claimed
-- batch, and the highest acked batch; 0 if there is none.
-- Atomic because two processes must never get the same epoch.
-- Cost: O(1).
-- Roles: claimer, pipeline, doctor
local group = KEYS[1]

-- Close a claim that its process did not finish. This frees memory, as a first write must.
redis.call('HDEL', group, 'claiming')
local epoch = redis.call('HINCRBY', group, 'epoch', 1)
local facts = redis.call('HMGET', group, 'last', 'acked')
return {epoch, tonumber(facts[1] or 0), tonumber(facts[2] or 0)}
