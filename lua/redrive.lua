-- redrive: make dead letters ready again, oldest first. Their receive counts and errors are reset.
--
-- KEYS[1] {name}CONTEXT    HASH    lease key -> the message as it was pushed
-- KEYS[2] {name}RECEIVES   HASH    lease key -> receive count of redelivered messages
-- KEYS[3] {name}DELAYED    ZSET    lease key -> due time, µs since the epoch
-- KEYS[4] {name}DEAD       STREAM  key, body, reason, count, time, errors of dead letters
-- KEYS[5] {name}COUNTERS   HASH    counts, kept while a client watches; see watch.lua
-- KEYS[6] {name}ERRORS     HASH    lease key -> why deliveries of it failed; see nack.lua
-- With groups: KEYS[7] {name} LIST ready messages
-- With groups: KEYS[8] {name}HANDOFF LIST front of the ready list
-- With groups: KEYS[9] {name}HELD STRING the record, see groups/record.lua
-- With groups: KEYS[10] {name}WAITERS:LOOKS STRING exists if a consumer has waited lately
-- With groups: KEYS[11] {name}GROUPS:BUSY HASH see groups/pop.lua
-- With groups: KEYS[12] {name}GROUPS:PARKED ZSET messages moved aside
-- With groups: KEYS[13] {name}GROUPS:TURNS ZSET
-- With groups: KEYS[14] {name}GROUPS:FLIGHT HASH
-- With groups: KEYS[15] {name}GROUPS:RUNS ZSET
-- With groups: KEYS[16] {name}GROUPS:WOKEN STRING
-- With groups: KEYS[17] {name}GROUPS:RATES ZSET
-- With groups: KEYS[18] {name}GROUPS:ROOM LIST
-- With groups: KEYS[19] {name}GROUPS:STOPPED HASH group -> ids of dead letters
-- With groups: KEYS[20] {name}GROUPS:LETTERS HASH id of a dead letter -> place, group
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
local ready, handoff, record, looks, busy = KEYS[7], KEYS[8], KEYS[9], KEYS[10], KEYS[11]
local parked, turns, flight, runs = KEYS[12], KEYS[13], KEYS[14], KEYS[15]
local woken, rates, room = KEYS[16], KEYS[17], KEYS[18]
local stopped, letters = KEYS[19], KEYS[20]
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

-- Parts: groups/rules, groups/known
-- Return what a record says, or nil if it is of another kind: see groups/record.lua.
local function rules_of(text)
  local limit, count, period, burst, on_dead, most, field = string.match(text or '',
    '^groups:(%d+):(%d+)/(%d+)/(%d+):(%a+):(%d+):(.*)$')
  return limit and {
    limit = tonumber(limit), burst = tonumber(burst), stops = on_dead == 'stop',
    each = tonumber(count) > 0 and period / count or nil, most = tonumber(most), field = field,
  }
end

-- Of a queue with groups, read every type before the first write.
local rules, are_parked, woken_note, are_stopped = nil, false, '', false
if record then
  rules = rules_of(redis.call('GET', record)) or {limit = 1, most = 0}
  redis.call('LLEN', ready)
  redis.call('LLEN', handoff)
  redis.call('HLEN', busy)
  are_parked = redis.call('ZCARD', parked) > 0
  redis.call('ZCARD', turns)
  redis.call('HLEN', flight)
  redis.call('ZCARD', runs)
  woken_note = redis.call('GET', woken) or ''
  redis.call('ZCARD', rates)
  redis.call('LLEN', room)
  are_stopped = redis.call('HLEN', stopped) > 0
end
-- End of parts (edit them in lua/parts)
if record then
  redis.call('HLEN', letters)
end

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

-- Parts: mark, groups/rates, groups/slots, groups/go_on, groups/wake
-- What ties a count on the list, a unique push or a note of failures to its body: another message
-- may have the same id.
local function mark(body)
  return #body .. ':' .. redis.sha1hex(string.sub(body, 1, 512) .. string.sub(body, -512))
end

-- Return by how many µs a group is ahead of its rate: at most its burst, because otherwise it would
-- stand still for as long as a clock was set back.
local ahead = {}
local function ahead_of(tag)
  local till = not ahead[tag] and tonumber(redis.call('ZSCORE', rates, tag) or nil) or now
  ahead[tag] = ahead[tag] or math.min(rules.burst * rules.each, math.max(0, till - now))
  return ahead[tag]
end

-- Return the µs until the next message of a group may be taken: 0 if one may be.
local function pause_of(tag)
  if not rules.each or tag == '' then
    return 0
  end
  local free = (rules.burst - 1) * rules.each + 0.000001
  return math.max(0, math.ceil(ahead_of(tag) - free))
end

local PLACE = 16 -- digits of the place of a message in the order of its group

-- Return what members of PARKED and RUNS begin with if they are of this group. The length of its
-- name is in front, so no name is the beginning of another.
local heads = {}
local function head_of(tag)
  heads[tag] = heads[tag] or string.format('%03d', #tag) .. tag
  return heads[tag]
end

-- Return the range of these members, as Redis writes it.
local function range_of(tag)
  local head = head_of(tag) -- a digit follows; ':' is the next character
  return '[' .. head, '(' .. head .. ':'
end

-- Return up to a number of a group's members of PARKED or RUNS, the first ones.
local function first_of(zset, tag, number)
  local low, high = range_of(tag)
  return redis.call('ZRANGEBYLEX', zset, low, high, 'LIMIT', '0', number)
end

local slots, turned = {}, 0 -- tag -> its messages in flight
local function slots_of(tag)
  slots[tag] = slots[tag] or tonumber(redis.call('HGET', busy, tag) or nil) or 0
  return slots[tag]
end

-- The group of the message that was moved to the list to wake a consumer, and since when it was
-- the group's turn.
local woken_since, woken_tag = string.match(woken_note,
  '^[^ ]* ([^ ]*) %d%d%d(.*)' .. string.rep('%d', PLACE) .. '$')

-- Return whether a dead letter stops a group.
local stops = {}
local function has_stopped(tag)
  if are_stopped and stops[tag] == nil then
    stops[tag] = redis.call('HEXISTS', stopped, tag) == 1
  end
  return are_stopped and stops[tag]
end

-- Messages without a group have no limit, and take their turn like a group. A group whose first
-- message is on the list waits for it.
local function is_free(tag)
  return tag ~= woken_tag and (tag == '' or slots_of(tag) < rules.limit and not has_stopped(tag))
end

-- Put a group into TURNS exactly if it has parked messages and a free slot: behind the others, or
-- where it was, or where its rate permits the next message.
local function turn(tag, since)
  if not are_parked then
    return
  end
  if is_free(tag) and redis.call('ZLEXCOUNT', parked, range_of(tag)) > 0 then
    turned = turned + 1
    local pause = pause_of(tag)
    since = pause == 0 and since or string.format('%.0f', now + (pause > 0 and pause or turned))
    redis.call('ZADD', turns, since, tag)
  else
    redis.call('ZREM', turns, tag)
  end
end

-- Let a group go on without a dead letter that stopped it, once no other one does.
local function go_on(tag, letter)
  local others = {}
  for other in string.gmatch(redis.call('HGET', stopped, tag) or '', '[^ ]+') do
    others[#others + 1] = other ~= letter and other or nil
  end
  redis.call('HDEL', letters, letter)
  if #others > 0 then
    redis.call('HSET', stopped, tag, table.concat(others, ' '))
  else
    redis.call('HDEL', stopped, tag)
    stops[tag] = false
    turn(tag)
  end
end

-- Let the group of the message that was moved to the list take its turn again: it was parked again,
-- or it is gone, because a bare RPOP took it.
local function forget_woken()
  if woken_tag then
    local tag = woken_tag
    woken_tag = nil
    redis.call('DEL', woken)
    turn(tag, woken_since)
  end
end

-- Consumers wait for a push onto the list. So if it is some group's turn, the lists are empty, and
-- a consumer has waited lately, move the group's first message to the end that is popped. WOKEN
-- ties its body to its place, to which the next pop returns it.
local function wake()
  if redis.call('ZCARD', turns) == 0 or redis.call('EXISTS', ready, handoff) > 0
    or redis.call('EXISTS', looks) == 0 then
    return
  end
  forget_woken()
  local tag, since = unpack(redis.call('ZRANGE', turns, '0', '0', 'WITHSCORES'))
  if pause_of(tag) > 0 then
    return -- consumers know from their pops when to look
  end
  local member = first_of(parked, tag, 1)[1]
  redis.call('ZREM', turns, tag)
  if member then
    local place = #head_of(tag) + PLACE
    local body = string.sub(member, place + 1)
    redis.call('ZREM', parked, member)
    redis.call('RPUSH', ready, body)
    redis.call('SET', woken, mark(body) .. ' ' .. since .. ' ' .. string.sub(member, 1, place))
  end
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

-- Put the message of a dead letter that stops its group back to its place in the group.
local function put_back(entry, of, key, fields)
  local tag, at = string.sub(of, PLACE + 1), string.sub(of, 1, PLACE)
  -- Write the copy first and delete the original last, so that the message always exists.
  redis.call('ZADD', parked, '0', head_of(tag) .. at .. fields.body)
  are_parked = true
  if fields.unique and key ~= '' then
    redis.call('HSET', receives, key, '0:' .. mark(fields.body) .. ':0')
  end
  redis.call('XDEL', dead, entry)
  go_on(tag, entry)
  redriven = redriven + 1
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
  local of = record and redis.call('HGET', letters, entry[1])
  if of then
    put_back(entry[1], of, key, fields)
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
if record and redriven > 0 then
  wake()
end
return {redriven, looked, after, unpack(refused)}
