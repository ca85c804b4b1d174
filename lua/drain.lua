-- drain: put messages back on the ready list as plain bodies, so that a bare RPOP can take them.
--
-- include: queue_keys
-- KEYS[8] {name}ERRORS     HASH    lease key -> why deliveries of it failed; see nack.lua
-- KEYS[9] {name}COUNTERS   HASH    counts, kept while a client watches; see watch.lua
-- KEYS[10] {name}NOTES     HASH    notes of unique messages and of those on lists; see README.md
-- KEYS[11] {name}RECORD    HASH    the settings of the queue, see record.lua
--
-- ARGV[1] wanted           integer 1..1000     messages
-- ARGV[2] known            right|left|groups   what the caller knows of the record
--
-- Returns how many were put back: handed over, delayed or leased (even if the lease still
-- runs, so stop the consumers first). They go to the end that is popped, to be taken next.
-- Atomic because a message must always be either on the list or leased, never both.
-- Cost: O(wanted log in-flight), at most 1 MiB of bodies plus one message.
-- Roles: operator, doctor
local ready, backup, context, handoff = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local receives, extended, delayed = KEYS[5], KEYS[6], KEYS[7]
local errors, counters, notes, record = KEYS[8], KEYS[9], KEYS[10], KEYS[11]
local wanted, known = tonumber(ARGV[1]), ARGV[2]

local BODY_BUDGET = 1048576 -- bytes

-- include: outside

if outside(wanted, 1, 1000) or not known then
  return redis.error_reply('ACKQ_ARGUMENT drain: wanted is 1..1000, and known is needed')
end
local from_left = known == 'left'

-- include: record

redis.call('LLEN', ready)
redis.call('LLEN', handoff)
redis.call('ZCARD', delayed)
redis.call('HLEN', context)
redis.call('HLEN', receives)
redis.call('HLEN', extended)
redis.call('HLEN', errors)
local has_notes = redis.call('HLEN', notes) > 0
local watched = redis.call('HEXISTS', counters, 'since') == 1
local moved, bytes, ended, gone = 0, 0, 0, {}

-- include: count_up, names

-- The first write frees nothing but counts as freeing, so that a full server can be drained.
redis.call('ZREMRANGEBYRANK', backup, 1, 0)

-- The first handed-over message is at the right end of the hand-off list. Move it last, so that it
-- ends nearest to the end of the ready list that is popped.
while moved < wanted and bytes < BODY_BUDGET do
  local body = redis.call('LMOVE', handoff, ready, 'LEFT', from_left and 'LEFT' or 'RIGHT')
  if not body then
    break
  end
  moved = moved + 1
  bytes = bytes + #body
end

for _, zset in ipairs({delayed, backup}) do
  local skipped = 0 -- records without a body, which an audit finds
  while moved < wanted and bytes < BODY_BUDGET and skipped < 1000 do
    local key = redis.call('ZREVRANGE', zset, skipped, skipped)[1]
    if not key then
      break
    end
    local body = redis.call('HGET', context, key)
    if not body then
      skipped = skipped + 1
    else
      redis.call(from_left and 'LPUSH' or 'RPUSH', ready, body)
      redis.call('HDEL', context, key)
      redis.call('HDEL', receives, key)
      redis.call('HDEL', extended, key)
      redis.call('HDEL', errors, key)
      redis.call('ZREM', zset, key)
      ended = ended + (zset == backup and 1 or 0)
      moved, bytes, gone[#gone + 1] = moved + 1, bytes + #body, key
    end
  end
end
open_names().end_all(gone)
count_up('ended', ended)
return moved
