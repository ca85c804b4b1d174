-- staging/commit: hand the staged rows of a batch to the queue, once.
--
-- KEYS[1] {name}COMMITS    HASH    writer -> the last batch that it committed
-- KEYS[2] {name}HELD       ZSET    held list -> µs from which its rows belong to the queue
-- KEYS[3] {name}HELDROWS   HASH    held list -> rows in it
-- KEYS[4] {name}RECORD     HASH    the settings of a list queue, see record.lua; of other queues it
--                                  does not exist
-- KEYS[5..] {name}STAGED:<writer>:<batch>:<task>  LIST  rows of a task, 0..1000 lists
--
-- ARGV[1] writer           text
-- ARGV[2] batch            integer 0..9007199254740991
-- ARGV[3] rows             integer 1..9007199254740991 for each list: rows that its task staged
--
-- Returns {'ok', rows}: the lists no longer expire, and the next consumers move their rows;
-- {'known', batch}: this batch, or a later one, is committed already, nothing was done;
-- {'lost', position}: this list, from 1, lacks rows that its task staged, nothing was done.
-- Atomic because the marker and the rows must never be seen apart: a batch is replayed after a
-- crash before this call, and dropped after a crash behind it.
-- Cost: O(lists), whatever their lengths.
-- Roles: writer
local commits, held, heldrows, record = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local writer, batch = ARGV[1], tonumber(ARGV[2])
local rows = 3
local HEAD = 4 -- keys before the lists
local count = #KEYS - HEAD

-- include: outside

if writer == '' or outside(batch, 0, 9007199254740991) or outside(count, 0, 1000)
  or #ARGV ~= rows - 1 + count then
  return redis.error_reply('ACKQ_ARGUMENT staging/commit: an argument is out of range')
end
for i = rows, #ARGV do
  if outside(tonumber(ARGV[i]), 1, 9007199254740991) then
    return redis.error_reply('ACKQ_ARGUMENT staging/commit: an argument is out of range')
  end
end

local known = nil -- both ends
-- include: record

-- Check every type before the first write, so that an error means that nothing was done.
redis.call('ZCARD', held)
redis.call('HLEN', heldrows)
local marker = tonumber(redis.call('HGET', commits, writer) or -1)
if marker >= batch then
  return {'known', marker}
end
local total = 0
for i = 1, count do
  local staged = tonumber(ARGV[rows - 1 + i])
  if redis.call('LLEN', KEYS[HEAD + i]) ~= staged then
    return {'lost', i}
  end
  total = total + staged
end

-- The first write frees nothing but counts as freeing, so that rows accepted by a full server can
-- be committed.
redis.call('ZREMRANGEBYRANK', held, 1, 0)
for i = 1, count do
  local list = KEYS[HEAD + i]
  redis.call('PERSIST', list)
  redis.call('HSET', heldrows, list, ARGV[rows - 1 + i])
  redis.call('ZADD', held, 0, list)
end
redis.call('HSET', commits, writer, string.format('%.0f', batch))
return {'ok', total}
