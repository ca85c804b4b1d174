-- redrive: make dead letters ready again, oldest first. Their receive counts and errors are reset.
--
-- KEYS[1] {name}CONTEXT    HASH    lease key -> the message as it was pushed
-- KEYS[2] {name}RECEIVES   HASH    lease key -> receive count of redelivered messages
-- KEYS[3] {name}DELAYED    ZSET    lease key -> due time, µs since the epoch
-- KEYS[4] {name}DEAD       STREAM  key, body, reason, count, time, errors of dead letters
-- KEYS[5] {name}COUNTERS   HASH    counts, kept while a client watches; see watch.lua
-- KEYS[6] {name}ERRORS     HASH    lease key -> why deliveries of it failed; see nack.lua
--
-- ARGV[1] wanted           integer 1..1000     dead letters
-- ARGV[2] after            start after this stream id; empty: at the oldest
-- ARGV[3] force            0|1                 1: also those whose ids are in the queue already
-- ARGV[4] entries          stream ids of the dead letters to redrive; absent: all, from after
--
-- Returns {redriven, looked at, stream id of the last, refused, refused, ...}; a missing entry
-- counts as looked at. Pass the entries that were not looked at in the next call. Dead letters
-- without a body stay. refused are the stream ids of those that stay, too, because a message with
-- their id is in the queue, and one of the two was stored by a unique push.
-- Atomic because a message must always be either dead or ready, never both.
-- Cost: O(wanted log delayed), at most 100 dead letters and 1 MiB of them plus one.
-- Roles: operator, doctor
local context, receives, delayed, dead = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local counters, errors = KEYS[5], KEYS[6]
local wanted, after, force = tonumber(ARGV[1]), ARGV[2], ARGV[3]

local BODY_BUDGET = 1048576 -- bytes of bodies and errors
local MAX_IN_CALL = 100 -- dead letters one call may look at

-- Parts: outside
local function outside(number, low, high)
  return not (number and number >= low and number <= high and number % 1 == 0)
end
-- End of parts (edit them in lua/parts)

if outside(wanted, 1, 1000) or not after or (force ~= '0' and force ~= '1')
  or #ARGV > 1003 then
  return redis.error_reply('ACKQ_ARGUMENT redrive: wanted is 1..1000, and so are the entries')
end

for i = 4, #ARGV do
  if not string.match(ARGV[i], '^%d+%-%d+$') then
    return redis.error_reply('ACKQ_ARGUMENT redrive: an entry is a stream id, such as 17-0')
  end
end

redis.call('HLEN', context)
redis.call('HLEN', receives)
redis.call('ZCARD', delayed)
redis.call('HLEN', errors)
local watched = redis.call('HEXISTS', counters, 'since') == 1
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
-- Parts: count_up
-- Count for those who watch. A field that is no number is left alone.
local function count_up(field, number)
  if watched == nil and number > 0 then
    watched = redis.pcall('HEXISTS', counters, 'since') == 1
  end
  if watched and number > 0 then
    redis.pcall('HINCRBY', counters, field, number)
  end
end
-- End of parts (edit them in lua/parts)

-- Parts: leading_id, unique_notes, is_unique
local HEAD = 521 -- bytes in which the longest id ends; a pattern must not walk a long body

-- Return the id of a JSON object that begins with it, as ackq's own messages do, or nil.
local function leading_id(body)
  local head = string.sub(body, 1, HEAD)
  local id = string.match(head, '^{"id":%s?"([^"\\%c]+)"')
    or string.match(head, '^{"id":%s?([1-9]%d?%d?%d?%d?%d?%d?%d?%d?%d?%d?%d?%d?%d?%d?)[,}]')
  return id and #id <= 512 and id or nil
end

-- RECEIVES notes each message of a unique push: on a list with its count, the mark of its body, and
-- the µs until which the note is believed, or 0; elsewhere with a : instead of a count, or a space
-- behind it. The field is the id, so an ack deletes the note. With "taken" it is another field
-- while the message is on a list, because one of this id may be in flight; pop deletes it. That
-- field may also hold the lease key of a delayed message, if it is not the id: with - instead of :,
-- because pop sweeps notes with a :.
local TAKEN = '\0unique:'

-- Return whether RECEIVES has this of a message of a unique push, which is leased or delayed.
local function is_unique(note)
  return note and string.find(note, '[: ]') ~= nil
end
-- End of parts (edit them in lua/parts)

local redriven, looked, bytes, derived, refused = 0, 0, 0, 0, {}

-- Return whether a message with this id is in the queue, if one of the two is of a unique push.
local function is_queued(id, unique)
  local found = redis.call('HMGET', receives, id, TAKEN .. id)
  local note, taken = found[1], found[2]
  if redis.call('HEXISTS', context, id) == 1 and (unique or is_unique(note)) then
    return true
  end
  if taken and string.byte(taken) == 0 then
    return redis.call('HEXISTS', context, (string.gsub(taken, '-', ':'))) == 1
  end
  return taken or (note and string.find(note, ':%x+:%d+$')) and true or false
end

local function redrive(entry)
  local fields = {}
  for i = 1, #entry[2], 2 do
    fields[entry[2][i]] = entry[2][i + 1]
    bytes = bytes + #entry[2][i + 1]
  end
  looked = looked + 1
  if not fields.body or (fields.body == '' and fields.reason == 'body missing') then
    return
  end
  local key = fields.key or ''
  if key == '' or string.byte(key) == 0 then
    key = leading_id(fields.body) or ''
  end
  local is_taken = key ~= '' and is_queued(key, fields.unique)
  if is_taken and force == '0' then
    refused[#refused + 1] = entry[1]
    return
  end
  if key == '' or is_taken or redis.call('HEXISTS', context, key) == 1 then
    repeat
      derived = derived + 1
      key = '\0' .. string.format('%.0f:%04d', now, derived)
    until redis.call('HEXISTS', context, key) == 0
  end
  -- Write the copy first and delete the original last, so that the message always exists.
  -- A microsecond apart, since Redis sorts equal scores by key.
  redis.call('ZADD', delayed, string.format('%.0f', now - MAX_IN_CALL + redriven), key)
  redis.call('HSET', context, key, fields.body)
  redis.call('HDEL', receives, key)
  if fields.unique then
    redis.call('HSET', receives, key, ':')
  end
  redis.call('HDEL', errors, key)
  redis.call('XDEL', dead, entry[1])
  redriven = redriven + 1
end

if #ARGV > 3 then
  for i = 4, #ARGV do
    if looked >= MAX_IN_CALL or bytes >= BODY_BUDGET then
      break
    end
    local entry = redis.call('XRANGE', dead, ARGV[i], ARGV[i])[1]
    if entry then
      redrive(entry)
    else
      looked = looked + 1
    end
  end
else
  while looked < math.min(wanted, MAX_IN_CALL) and bytes < BODY_BUDGET do
    local first = after == '' and '-' or '(' .. after
    local entry = redis.call('XRANGE', dead, first, '+', 'COUNT', 1)[1]
    if not entry then
      break
    end
    redrive(entry)
    after = entry[1]
  end
end
count_up('redriven', redriven)
return {redriven, looked, after, unpack(refused)}
