-- staging/drop: delete uncommitted staged lists of a batch.
--
-- KEYS[1] {name}HELD                            ZSET  name of a committed list -> 0
-- KEYS[2] {name}STAGING:<writer>:<batch>        SET   names of the lists of the batch
-- KEYS[3..] {name}STAGED:<writer>:<batch>:<task>  LIST  rows of a task, 1..1000 lists
--
-- Returns how many lists were deleted. A committed one stays until its rows are in the queue.
-- Atomic because a commit between the look and the deletion would lose its rows.
-- Cost: O(lists log held). Redis frees a list in the background only if it has more than 64 nodes;
-- pass few lists if their rows are long.
-- Roles: writer
local held, index = KEYS[1], KEYS[2]
local HEAD = 2 -- keys before the lists

if #KEYS <= HEAD or #KEYS > HEAD + 1000 then
  return redis.error_reply('ACKQ_ARGUMENT staging/drop: 1 to 1000 lists')
end

redis.call('SCARD', index)
redis.call('ZCARD', held)
local dropped = 0
for i = HEAD + 1, #KEYS do
  local list = KEYS[i]
  redis.call('SREM', index, list)
  if not redis.call('ZSCORE', held, list) and redis.call('TYPE', list).ok == 'list' then
    dropped = dropped + redis.call('UNLINK', list)
  end
end
return dropped
