-- sharded/close: close a shard of a queue with groups to producers. Its messages stay.
--
-- KEYS[1] {shard}                LIST    ready messages; of a closed shard a STRING: closed, and
--                                        the version of the record that made it a former one
-- KEYS[2] {shard}CONTEXT         HASH    lease key -> message; of a retired shard a STRING
-- KEYS[3] {shard}GROUPS:CLOSED   LIST    ready messages of a closed shard
-- KEYS[4] {shard}RECORD          HASH    since: the version of the record that opened the shard
--
-- ARGV[1] version                integer 1..9007199254740991   of the record that names it a former
--                                        one
--
-- Returns 1 if it is closed, now or before; 0 if it was opened by this version or a later one, or
-- if its list is a string of another program.
-- Atomic because a message that came between the two steps would be delivered out of order. A push
-- onto a closed shard is refused by the type of the list.
-- Cost: O(1).
-- Roles: consumer, worker, operator
local ready, context, closed, record = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local version = tonumber(ARGV[1])

-- include: outside

if outside(version, 1, 9007199254740991) then
  return redis.error_reply('ACKQ_ARGUMENT sharded/close: version is an integer from 1')
end

local text = string.format('%.0f', version)
if redis.call('TYPE', ready).ok == 'string' then
  local state = redis.call('GET', ready)
  if string.match(state, '^closed %d+$') then
    return 1
  end
  if not tonumber(state) then
    return 0
  end
  -- It was retired too early, while it was in use. It must not be opened for the former record.
  if tonumber(state) < version then
    redis.call('MSET', ready, text, context, text)
  end
  return 1
end
if tonumber(redis.call('HGET', record, 'since') or '0') >= version then
  return 0
end
redis.call('LLEN', closed)
if redis.call('LLEN', ready) > 0 and redis.call('RENAMENX', ready, closed) == 0 then
  return 0
end
redis.call('SET', ready, 'closed ' .. text)
return 1
