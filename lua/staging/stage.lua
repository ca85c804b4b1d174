-- staging/stage: create the list in which a writer's task keeps its rows until the commit.
--
-- KEYS[1] {name}STAGED:<writer>:<batch>:<task>  LIST  the task's rows, the first at the right end
-- KEYS[2] {name}STAGING:<writer>:<batch>        SET   names of the lists of the batch
--
-- ARGV[1] lifetime         integer 1000..604800000   ms that uncommitted rows are kept
-- ARGV[2] rows             1..16 of them             the first comes first; LPUSHX adds more
--
-- Returns the number of rows in the list; 0: a list of this name exists, nothing was done.
-- Atomic because a list without a time to live would stay for ever after a crash.
-- Cost: O(rows).
-- Roles: writer
local list, index = KEYS[1], KEYS[2]
local lifetime = tonumber(ARGV[1])
local rows = 2

-- include: outside

if outside(lifetime, 1000, 604800000)
  or #ARGV < rows or #ARGV > 17 then
  return redis.error_reply('ACKQ_ARGUMENT staging/stage: an argument is out of range')
end

redis.call('SCARD', index)
if redis.call('EXISTS', list) == 1 then
  return 0
end
-- Write the rows first: at maxmemory this write is rejected before anything is stored.
local count = redis.call('LPUSH', list, unpack(ARGV, rows))
redis.call('PEXPIRE', list, ARGV[1])
redis.call('SADD', index, list)
redis.call('PEXPIRE', index, ARGV[1])
return count
