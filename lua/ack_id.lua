-- ack_id: delete messages by their bare ids, like the article's ack (see README.md). NOT FENCED: a
-- late call deletes the message even if it is leased to another consumer now.
--
-- include: leased_keys
-- KEYS[5] {name}ERRORS     HASH    lease key -> why deliveries of it failed; see nack.lua
-- KEYS[6] {name}COUNTERS   HASH    counts, kept while a client watches; see watch.lua
-- KEYS[7] {name}NOTES      HASH    notes of unique messages and of those on lists; see README.md
-- KEYS[8] {name}RECORD     HASH    the settings of the queue, see record.lua
-- With groups: KEYS[9] {name}DELAYED ZSET
-- With groups: KEYS[10] {name} LIST ready messages
-- include: groups/keys
-- include: groups/waking_keys
--
-- ARGV[1] ids              1..4000 lease keys
--
-- Returns {deleted, looked at}: messages in flight that were deleted, and ids looked at; pass the
-- other ids in the next call. Messages in DELAYED stay.
-- Atomic because a lease and its body are deleted together.
-- Cost: O(ids log in-flight); Redis frees the bodies at once, so at most 8 MiB plus one message.
-- Roles: consumer, worker, doctor
local backup, context, receives, extended = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local errors, counters, notes = KEYS[5], KEYS[6], KEYS[7]
local record, delayed, ready = KEYS[8], KEYS[9], KEYS[10]
-- include: groups/waking_bound

local FREED = 8388608 -- bytes of bodies one call may delete

if #ARGV < 1 or #ARGV > 4000 then
  return redis.error_reply('ACKQ_ARGUMENT ack_id: 1..4000 ids')
end
redis.call('HLEN', context)
redis.call('HLEN', receives)
redis.call('HLEN', extended)
redis.call('HLEN', errors)
local has_notes = redis.call('HLEN', notes) > 0
local watched = redis.call('HEXISTS', counters, 'since') == 1

local known = busy and 'groups' or nil
-- include: record, groups/known

-- include: count_up, names

local settled, looked, bytes, gone = 0, 0, 0, {}
for _, key in ipairs(ARGV) do
  if bytes >= FREED then
    break
  end
  looked = looked + 1
  if redis.call('ZREM', backup, key) == 1 then
    bytes = bytes + redis.call('HSTRLEN', context, key)
    redis.call('HDEL', context, key)
    redis.call('HDEL', receives, key)
    redis.call('HDEL', extended, key)
    redis.call('HDEL', errors, key)
    settled = settled + 1
    gone[settled] = key
  end
end
if settled > 0 then
  open_names().end_all(gone)
end
count_up('acked', settled)
if not busy or settled == 0 then
  return {settled, looked}
end

-- include: now, groups/leave

leave(gone)
return {settled, looked}
