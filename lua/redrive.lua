-- redrive: make dead letters ready again, oldest first. Their receive counts and errors are reset.
--
-- include: delayed_keys
-- KEYS[5] {name}COUNTERS   HASH    counts, kept while a client watches; see watch.lua
-- KEYS[6] {name}ERRORS     HASH    lease key -> why deliveries of it failed; see nack.lua
-- KEYS[7] {name}NOTES      HASH    notes of unique messages and of those on lists; see README.md
-- KEYS[8] {name}RECORD     HASH    the settings of the queue, see record.lua
-- KEYS[9] {name}           LIST    ready messages
-- KEYS[10] {name}HANDOFF   LIST    front of the ready list
-- KEYS[11] {name}HELD      ZSET    held list -> µs from which its messages are the queue's
-- KEYS[12] {name}WAITERS:LOOKS STRING exists if a consumer has waited lately
-- include: groups/keys
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
local counters, errors, notes = KEYS[5], KEYS[6], KEYS[7]
local record, ready, handoff, held, looks = KEYS[8], KEYS[9], KEYS[10], KEYS[11], KEYS[12]
-- include: groups/bound
local wanted, after, force = tonumber(ARGV[1]), ARGV[2], ARGV[3]

-- include: outside, each_letter

if outside(wanted, 1, 1000) or not after or (force ~= '0' and force ~= '1')
  or #ARGV > 1003 then
  return redis.error_reply('ACKQ_ARGUMENT redrive: wanted is 1..1000, and so are the entries')
end

if not are_entries(4) then
  return redis.error_reply('ACKQ_ARGUMENT redrive: an entry is a stream id, such as 17-0')
end

redis.call('HLEN', context)
redis.call('HLEN', receives)
redis.call('ZCARD', delayed)
redis.call('HLEN', errors)
local are_listed = redis.call('LLEN', ready) + redis.call('LLEN', handoff)
  + redis.call('ZCARD', held) > 0
local has_notes = redis.call('HLEN', notes) > 0
local watched = redis.call('HEXISTS', counters, 'since') == 1
-- include: now

local known = busy and 'groups' or nil
-- include: record, groups/known

-- include: count_up, leading_id, names, free_key, mark, groups/slots, groups/go_on, groups/wake

local redriven, refused, names, waking = 0, {}, open_names(), nil

-- include: wake_up

-- Return whether a message with this id is in the queue, if one of the two is of a unique push.
local function is_queued(id, unique)
  for name, till in pairs(names.of(id)) do
    if till ~= '' and (are_listed or are_parked)
      or till == '' and redis.call('HEXISTS', context, names.key(id, name)) == 1 then
      return true
    end
  end
  return unique and redis.call('HEXISTS', context, id) == 1
end

-- Put the message of a dead letter that stops its group back to its place in the group.
local function put_back(entry, of, key, fields)
  local tag, at = string.sub(of, PLACE + 1), string.sub(of, 1, PLACE)
  -- Write the copy first and delete the original last, so that the message always exists.
  redis.call('ZADD', parked, '0', head_of(tag) .. at .. fields.body)
  are_parked = true
  if fields.unique and key ~= '' then
    names.change(key, nil, mark(fields.body), string.format('%.0f', now))
  end
  redis.call('XDEL', dead, entry)
  end_stop(tag, entry)
  redriven = redriven + 1
end

local function redrive(entry, fields)
  if not fields.body or (fields.body == '' and fields.reason == 'body missing') then
    return
  end
  local key = id_in(fields.key or '') or leading_id(fields.body) or ''
  local is_taken = key ~= '' and is_queued(key, fields.unique)
  if is_taken and force == '0' then
    refused[#refused + 1] = entry
    return
  end
  local of = busy and redis.call('HGET', letters, entry)
  if of then
    put_back(entry, of, key, fields)
    return
  end
  key = free_key(key, string.format('%.0f', now), is_taken)
  -- Write the copy first and delete the original last, so that the message always exists.
  -- A microsecond apart, since Redis sorts equal scores by key.
  waking = key
  redis.call('ZADD', delayed, string.format('%.0f', now - MAX_IN_CALL + redriven), key)
  redis.call('HSET', context, key, fields.body)
  redis.call('HDEL', receives, key)
  if fields.unique then
    local id, name = id_in(key)
    names.change(id, nil, name)
  end
  redis.call('HDEL', errors, key)
  redis.call('XDEL', dead, entry)
  redriven = redriven + 1
end

local looked, last = each_letter(dead, 4, wanted, after, redrive)
count_up('redriven', redriven)
if busy and redriven > 0 then
  go_on()
  wake()
end
if waking and looked < MAX_IN_CALL then -- or the next call makes others ready
  wake_up(waking, 0, now)
end
write_notes()
return {redriven, looked, last, unpack(refused)}
