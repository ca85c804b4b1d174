-- sharded/retire: close a shard that is no longer needed, if it is empty.
--
-- KEYS[1] {shard}            LIST    ready messages; of a retired shard a STRING, the version of
--                                    the record at which it was retired
-- KEYS[2] {shard}BACKUP      ZSET    lease key -> deadline, µs since the epoch
-- KEYS[3] {shard}CONTEXT     HASH    lease key -> message; of a retired shard a STRING as well
-- KEYS[4] {shard}HANDOFF     LIST    front of the ready list
-- KEYS[5] {shard}RECEIVES    HASH    lease key -> receive count
-- KEYS[6] {shard}EXTENDED    HASH    lease key -> receipt:deadline
-- KEYS[7] {shard}DELAYED     ZSET    lease key -> due time
-- KEYS[8] {shard}DEAD        STREAM  dead letters
-- KEYS[9] {shard}HELD        ZSET    held list -> µs from which its messages are the queue's
-- KEYS[10] {shard}RECORD     HASH    the settings of the shard, which are deleted
-- KEYS[11] {shard}HELDROWS   HASH    held list -> messages in it
-- KEYS[12] {shard}PAUSED     STRING  exists while the shard is paused
-- KEYS[13] {shard}NOTES      HASH    notes of messages, all of which are gone if the shard is empty
--
-- ARGV[1] version            integer 1..9007199254740991   of the record that does not name it
--
-- Returns 1 if it is retired, now or before; 0 if it has messages or is paused, or if its list is
-- a string of another program.
-- Atomic because a message that came after the check would be lost. A push onto a retired shard is
-- refused: LPUSH by the type of the first key, the scripts that store messages for later by that
-- of CONTEXT.
-- Cost: O(1).
-- Roles: consumer, worker, operator
local ready, context, dead, record, notes = KEYS[1], KEYS[3], KEYS[8], KEYS[10], KEYS[13]
local version = tonumber(ARGV[1])

-- include: outside

if outside(version, 1, 9007199254740991) then
  return redis.error_reply('ACKQ_ARGUMENT sharded/retire: version is an integer from 1')
end

local since = 0
if redis.call('TYPE', ready).ok == 'string' then
  since = tonumber(redis.call('GET', ready))
  if not since then
    return 0
  end
else
  for _, key in ipairs(KEYS) do
    local kind = redis.call('TYPE', key).ok
    -- A stream stays when its last entry goes.
    local empty = key == dead and kind == 'stream' and redis.call('XLEN', dead) == 0
    if kind ~= 'none' and not empty and key ~= record
      and not (key == notes and kind == 'hash') then
      return 0
    end
  end
  redis.call('UNLINK', dead, record, notes)
end
if since < version then
  local text = string.format('%.0f', version)
  redis.call('MSET', ready, text, context, text)
end
return 1
