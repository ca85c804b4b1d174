-- staging/merge: move rows of one task's list to the end of another's, before the commit.
--
-- KEYS[1] {name}STAGED:<writer>:<batch>:<task>  LIST  emptied from its right end
-- KEYS[2] {name}STAGED:<writer>:<batch>:<other>  LIST  grows at its left end; must exist
--
-- ARGV[1] wanted           integer 1..2000     rows
--
-- Returns how many rows are left to move; -1: the second list does not exist, nothing was done.
-- Atomic because a row must always be in exactly one of the lists.
-- Cost: O(wanted), at most 1 MiB of rows plus one row.
-- Roles: writer
local from, to = KEYS[1], KEYS[2]
local wanted = tonumber(ARGV[1])
local BODY_BUDGET = 1048576 -- bytes

-- include: outside

if outside(wanted, 1, 2000) or from == to then
  return redis.error_reply('ACKQ_ARGUMENT staging/merge: wanted is 1..2000, of another list')
end

local left = redis.call('LLEN', from)
if redis.call('LLEN', to) == 0 then
  return -1 -- and it would be created again, without its time to live
end
-- The first write frees nothing but counts as freeing, so that it is allowed at maxmemory.
redis.call('LTRIM', from, 0, -1)
local moved, bytes = 0, 0
while moved < math.min(wanted, left) and bytes < BODY_BUDGET do
  bytes = bytes + #redis.call('LMOVE', from, to, 'RIGHT', 'LEFT')
  moved = moved + 1
end
return left - moved
