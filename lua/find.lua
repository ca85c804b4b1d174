-- find: tell where leased and delayed messages are, by their lease keys.
--
-- KEYS[1] {name}BACKUP     ZSET    lease key -> deadline, µs since the epoch
-- KEYS[2] {name}CONTEXT    HASH    lease key -> the message as it was pushed
-- KEYS[3] {name}RECEIVES   HASH    lease key -> receive count of redelivered messages
-- KEYS[4] {name}DELAYED    ZSET    lease key -> due time, µs since the epoch
--
-- ARGV[1] texts            how many of the next arguments are texts, at most 8
-- ARGV[2] more             as many texts that a body must contain, see search.lua, of 1..4096
--                          bytes; then 1..1000 lease keys
--
-- Returns {now, expired, looked at, key, place, score, rank, count, body, ...}, six values for each
-- message. now: µs since the epoch; expired: how many leases have ended; place: backup|delayed;
-- score: its deadline or due time; rank: how many have an earlier one; count: deliveries so far.
-- Keys that are in neither set are left out. Pass the other keys in the next call.
-- Atomic because a message moves between the two sets.
-- Cost: O(keys log in-flight): at most 1 MiB of bodies plus one message.
-- Roles: viewer, operator, doctor
local backup, context, receives, delayed = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local texts = tonumber(ARGV[1])

local BODY_BUDGET = 1048576 -- bytes of bodies one call may read

-- include: outside, contains

if outside(texts, 0, 8) or #ARGV < texts + 2 or #ARGV > texts + 1001 then
  return redis.error_reply('ACKQ_ARGUMENT find: 0..8 texts, then 1..1000 keys')
end
local wanted = wanted_texts(2, 1 + texts)
if not wanted then
  return redis.error_reply('ACKQ_ARGUMENT find: a text has 1..4096 bytes')
end

local clock = redis.call('TIME')
local now = string.format('%.0f', clock[1] * 1000000 + clock[2])
local reply = {now, redis.call('ZCOUNT', backup, '-inf', now), 0}
local bytes = 0

local function look_up(key, place, zset, absent)
  local score = redis.call('ZSCORE', zset, key)
  local body = score and (redis.call('HGET', context, key) or '')
  if not body then
    return false
  end
  bytes = bytes + #body
  if contains(body, wanted) then
    local count = tonumber(redis.call('HGET', receives, key)) or absent
    for _, value in ipairs({key, place, score, redis.call('ZRANK', zset, key), count, body}) do
      reply[#reply + 1] = value
    end
  end
  return true
end

for i = texts + 2, #ARGV do
  if bytes >= BODY_BUDGET then
    break
  end
  if not look_up(ARGV[i], 'backup', backup, 1) then
    look_up(ARGV[i], 'delayed', delayed, 0)
  end
  reply[3] = reply[3] + 1
end
return reply
