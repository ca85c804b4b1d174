-- run_now: make chosen delayed messages ready now, in the given order.
--
-- KEYS[1] {name}DELAYED    ZSET    lease key -> due time, µs since the epoch
-- KEYS[2] {name}CONTEXT    HASH    lease key -> the message as it was pushed
-- KEYS[3] {name}RECEIVES   HASH    lease key -> receive count of redelivered messages
-- KEYS[4] {name}NOTES      HASH    notes of unique messages and of those on lists; see README.md
-- KEYS[5] {name}RECORD     HASH    the settings of the queue, see record.lua
-- KEYS[6] {name}           LIST    ready messages
-- KEYS[7] {name}BACKUP     ZSET    lease key -> deadline, µs since the epoch
-- KEYS[8] {name}HANDOFF    LIST    front of the ready list
-- KEYS[9] {name}WAITERS:LOOKS STRING exists if a consumer has waited lately
-- include: groups/keys
--
-- ARGV[1] chosen           1..500 pairs of: the due time that the message must have, an integer
--                          0..9007199254740991 µs, or empty for any; lease key
--
-- Returns how many were made ready. Messages that are due already, are not delayed, or have another
-- due time are left alone. Receive counts and notes of failures are kept.
-- Atomic because a pop must not take a message between the look at its due time and the change.
-- Cost: O(chosen log delayed), and one body if that wakes a consumer.
-- Roles: operator, doctor
local delayed, context, receives, notes, record = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local ready, backup, handoff, looks = KEYS[6], KEYS[7], KEYS[8], KEYS[9]
-- include: groups/bound

-- include: outside

if #ARGV < 2 or #ARGV > 1000 or #ARGV % 2 == 1 then
  return redis.error_reply('ACKQ_ARGUMENT run_now: 1..500 pairs of a due time and a key')
end
for at = 1, #ARGV, 2 do
  if ARGV[at] ~= '' and outside(tonumber(ARGV[at]), 0, 9007199254740991) then
    return redis.error_reply('ACKQ_ARGUMENT run_now: a due time is 0..9007199254740991 or empty')
  end
end

redis.call('LLEN', ready)
redis.call('LLEN', handoff)
redis.call('HLEN', context)
redis.call('HLEN', receives)
redis.call('ZCARD', backup)
local has_notes = redis.call('HLEN', notes) > 0
-- include: now

local known = busy and 'groups' or nil
-- include: record, groups/known

-- The first write frees nothing but counts as freeing: a full server can be emptied in this way.
redis.call('ZREMRANGEBYRANK', delayed, 1, 0)
local moved, waking = 0, nil
for at = 1, #ARGV, 2 do
  local due, key = ARGV[at], ARGV[at + 1]
  local score = tonumber(redis.call('ZSCORE', delayed, key) or nil)
  if score and score > now and (due == '' or score == tonumber(due)) then
    -- A microsecond apart, since Redis sorts equal scores by key. They end at the present, so that
    -- all are due.
    redis.call('ZADD', delayed, 'XX', string.format('%.0f', now - 500 + (at + 1) / 2), key)
    moved, waking = moved + 1, at
  end
end
if waking and #ARGV < 1000 then -- or the next call makes others ready
  -- include: names
  local names = has_notes and open_names()
  -- include: wake_up
  local key = ARGV[waking + 1]
  if wake_up(key, tonumber(redis.call('HGET', receives, key) or 0), now) then
    -- include: groups/leave
    leave({key})
  end
  write_notes()
end
return moved
