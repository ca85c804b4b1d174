-- staging/queue: move rows of a committed list behind the messages of a list queue.
--
-- KEYS[1] {name}           LIST    ready messages: pushed on the left, taken from the right. Use
--                                  held/give_back for a queue that is popped from the left.
-- KEYS[2] {name}HELD       ZSET    held list -> µs from which its rows belong to the queue
-- KEYS[3] {name}HELDROWS   HASH    held list -> rows in it
-- KEYS[4] {name}STAGED:<writer>:<batch>:<task>  LIST  a committed list, the first row at the right
--
-- Returns how many rows are left: call again while there are any. 0 also for a list that is not
-- committed, or that another client has moved; nothing was done then.
-- Atomic because a row must always be either held or ready, never both.
-- Cost: O(1) if no message is ready: the list becomes the ready list. Else O(moved): at most 1,000
-- rows and 1 MiB of bodies, plus 16 rows.
-- Roles: writer
local ready, held, heldrows, list = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local CHUNK = 1000 -- rows one call may move
local SLICE = 16 -- rows moved together: calls for a slice take half as long as an LMOVE for each
local BODY_BUDGET = 1048576 -- bytes of bodies one call may move

local waiting = redis.call('LLEN', ready)
redis.call('HLEN', heldrows)
if redis.call('ZSCORE', held, list) ~= '0' then
  return 0
end
-- A key of another type belongs to another program: leave it alone and stop tracking it.
if redis.call('TYPE', list).ok ~= 'list' then
  redis.call('ZREM', held, list)
  redis.call('HDEL', heldrows, list)
  return 0
end

-- The first write frees nothing but counts as freeing, so that it is allowed at maxmemory.
redis.call('ZREMRANGEBYRANK', held, 1, 0)
if waiting == 0 then
  redis.call('RENAME', list, ready)
  redis.call('PERSIST', ready)
else
  -- Begin with one row, since the rows may be large; later slices expect as large ones.
  local moved, bytes, largest = 0, 0, BODY_BUDGET
  while moved < CHUNK and bytes < BODY_BUDGET do
    local room = math.floor((BODY_BUDGET - bytes) / largest)
    local most = math.max(1, math.min(SLICE, CHUNK - moved, room))
    local rows, backwards = {}, redis.call('LRANGE', list, -most, -1)
    if not backwards[1] then
      break
    end
    largest = 1
    for i = #backwards, 1, -1 do
      local row = backwards[i]
      rows[#rows + 1] = row
      bytes = bytes + #row
      largest = math.max(largest, #row)
    end
    moved = moved + #rows
    redis.call('LPUSH', ready, unpack(rows))
    redis.call('LTRIM', list, 0, -#rows - 1) -- a writer that might send RPOP could lose messages
  end
end

local left = redis.call('LLEN', list)
if left > 0 then
  redis.call('HSET', heldrows, list, left)
else
  redis.call('ZREM', held, list)
  redis.call('HDEL', heldrows, list)
end
return left
