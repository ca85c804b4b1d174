-- groups/cancel: make chosen messages that were moved aside dead letters, with the reason
-- "canceled".
--
-- KEYS[1] {name}RECEIVES   HASH    lease key -> receive count of redelivered messages; and notes of
--                                  messages on the lists, or moved aside
-- KEYS[2] {name}DEAD       STREAM  key, body, reason, count, time, errors of dead letters
-- KEYS[3] {name}ERRORS     HASH    lease key -> why deliveries of it failed; see nack.lua
-- KEYS[4] {name}COUNTERS   HASH    counts, kept while a client watches; see watch.lua
-- KEYS[5] {name}GROUPS:PARKED  ZSET  messages moved aside; see groups/pop.lua
-- KEYS[6] {name}GROUPS:TURNS   ZSET  group that has parked messages -> its turn, µs
--
-- ARGV[1] after            text    a place that an earlier reply ended with; empty: from the first
-- ARGV[2] ids              1..1000 lease keys
--
-- Returns {after, canceled}. after is empty if there are no others. A message that stays parked
-- during all calls is looked at once. Call pick.lua and cancel.lua, too: a message may be on a
-- list, delayed or leased.
-- Atomic because a message must always be in one place, and a group without messages has no turn.
-- Cost: O(2,000 + log parked): at most 2,000 messages are looked at, 100 canceled, 1 MiB of bodies
-- and notes read, plus 4 messages behind short ones, and 72 KiB decoded.
-- Roles: operator, doctor
local receives, dead, errors, counters = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local parked, turns = KEYS[5], KEYS[6]
local after = ARGV[1]

local BODY_BUDGET = 1048576 -- bytes of bodies and notes one call may read
local SEEN = 2000 -- messages one call may look at
local CANCELED = 100 -- messages one call may cancel
local AT_ONCE = 4 -- messages read at a time, as long as those before were short
local SHORT = 4096 -- bytes
local PLACE = 16 -- digits of the place of a message
local HEAD = 521 -- bytes in which the longest id ends; a pattern must not walk a long body

if #ARGV < 2 or #ARGV > 1001 then
  return redis.error_reply('ACKQ_ARGUMENT groups/cancel: 1..1000 ids')
end
if after ~= '' and not string.find(after, string.rep('%d', PLACE) .. '$') then
  return redis.error_reply('ACKQ_ARGUMENT groups/cancel: after is a place, or empty')
end
local wanted = {}
for i = 2, #ARGV do
  wanted[ARGV[i]] = true
end

redis.call('HLEN', receives)
redis.call('XLEN', dead)
redis.call('ZCARD', turns)
local has_errors = redis.call('HLEN', errors) > 0
local watched = redis.call('HEXISTS', counters, 'since') == 1
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local now_text = string.format('%.0f', now)

-- Parts: count_up, mark, failures, unique_notes, noted_mark, natural_key, wanted_key
-- Count for those who watch. A field that is no number is left alone.
local function count_up(field, number)
  if watched == nil and number > 0 then
    watched = redis.pcall('HEXISTS', counters, 'since') == 1
  end
  if watched and number > 0 then
    redis.pcall('HINCRBY', counters, field, number)
  end
end

-- What ties a count on the list, a unique push or a note of failures to its body: another message
-- may have the same id.
local function mark(body)
  return #body .. ':' .. redis.sha1hex(string.sub(body, 1, 512) .. string.sub(body, -512))
end

-- Return the failures of earlier deliveries of this very message, newest last. The note may be of
-- another message.
local function failures_of(note, body, before)
  local found = {}
  if note and string.match(note, '^[^\n]*') == mark(body) then
    for entry, attempt in string.gmatch(note, '\n((%d+):[^\n]*)') do
      if tonumber(attempt) >= before then
        return {} -- counts only grow, so these are of an earlier message
      end
      found[#found + 1] = entry
    end
  end
  return found
end

-- Return the last fields of a dead letter: its failures if there are any, and whether it is of a
-- unique push.
local function last_fields(found, unique)
  local fields = unique and {'unique', '1'} or {}
  if #found > 0 then
    fields[#fields + 1] = 'errors'
    fields[#fields + 1] = table.concat(found, '\n')
  end
  return fields
end

-- RECEIVES notes each message of a unique push: on a list with its count, the mark of its body, and
-- the µs until which the note is believed, or 0; elsewhere with a : instead of a count, or a space
-- behind it. The field is the id, so an ack deletes the note. With "taken" it is another field
-- while the message is on a list, because one of this id may be in flight; pop deletes it. That
-- field may also hold the lease key of a delayed message, if it is not the id: with - instead of :,
-- because pop sweeps notes with a :.
local TAKEN = '\0unique:'

-- Return the mark of the body that a unique push noted.
local function noted_mark(note)
  return string.match(note or '', '^%d+:(%d+:%x+):%d+$')
end

local MAX_DECODED = 65536 -- bytes; nothing can stop a script while it decodes
local DECODE_BUDGET = 73728 -- bytes decoded in one call, and an eighth of those searched for an id
local LONG_ID = 64 -- bytes; reading the rest of an id counts half as much as decoding
local decoded = 0

-- Return the id of a JSON object as a lease key, or nil. ackq's producers put it first, so the
-- usual message needs no decoding.
local function natural_key(body)
  local head = #body <= HEAD and body or string.sub(body, 1, HEAD)
  local id = string.match(head, '^{"id":%s?"([^"\\%c]+)"')
    or string.match(head, '^{"id":%s?([1-9]%d?%d?%d?%d?%d?%d?%d?%d?%d?%d?%d?%d?%d?%d?)[,}]')
  if not id and #body <= MAX_DECODED then
    local named = string.find(body, '"id"', 1, true)
    decoded = decoded + #body / 8 + (named and #body or 0)
    if named and decoded <= DECODE_BUDGET then
      local valid, object = pcall(cjson.decode, body)
      id = valid and type(object) == 'table' and object.id
      if type(id) == 'number' then
        id = id % 1 == 0 and math.abs(id) < 9007199254740992 and string.format('%.0f', id + 0)
      end
    end
  end
  if type(id) == 'string' and #id >= 1 and #id <= 512 and string.byte(id) ~= 0 then
    if #id > LONG_ID then
      decoded = decoded + (#id - LONG_ID) / 2
    end
    return id
  end
end

local NAME = 16 -- bytes; looking at a field costs as much as decoding these

-- Return, without decoding it, whether a body may have a wanted id that is not in front, and how
-- many fields of this name were looked at.
local function names_wanted(body)
  local names, _, named = 0, string.find(body, '"id"', 1, true)
  while named do
    names = names + 1
    local id = string.match(body, '^%s*:%s*"([^"]*)"', named + 1)
    if not id or wanted[id] or string.find(id, '\\', 1, true) then
      return true, names
    end
    _, named = string.find(body, '"id"', named + 1, true)
  end
  return false, names
end

-- Return the lease key that pop would give to a body, if it is wanted.
local function wanted_key(body)
  local head = #body <= HEAD and body or string.sub(body, 1, HEAD)
  local id = string.match(head, '^{"id":%s?"([^"\\%c]+)"')
  if not id and #body <= MAX_DECODED then
    local is_named, names = names_wanted(body)
    if is_named then
      id = natural_key(body)
    else
      decoded = decoded + #body / 8
    end
    decoded = decoded + NAME * names
  end
  return id and wanted[id] and id
end
-- End of parts (edit them in lua/parts)
-- Parts: cancels, canceled_message, groups/from_behind
-- A message deep in a list is canceled by a note in RECEIVES, under CANCELS and its id: for each
-- body a line of the time (µs) at which the note ends, how many such messages are canceled, and the
-- mark of the body. Under CANCELS itself are the time (µs) from which notes count, and how many ids
-- have one.
local CANCELS = '\0canceled'
local CANCELS_LAST = 604800000000 -- µs

-- Return what reads, uses up and writes the notes, given what is under CANCELS, and with the notes
-- for some ids.
local function open_cancels(head, known_ids)
  local since, ids = string.match(head or '', '^(%d+):(%d+)$')
  local cancels = {since = tonumber(since or now), ids = tonumber(ids or 0)}
  local lines_of, changed, fields = {}, {}, {}
  for i, id in ipairs(known_ids) do
    fields[i] = CANCELS .. ':' .. id
  end
  cancels.notes = redis.call('HMGET', receives, unpack(fields))

  -- Return the lines of an id's note that still count.
  function cancels.lines(id, note)
    if not lines_of[id] then
      local lines = {}
      for till, count, of in string.gmatch(note or '', '(%d+):(%d+):([^\n]+)') do
        local is_current = tonumber(till) >= cancels.since + CANCELS_LAST
        lines.is_counted = lines.is_counted or is_current
        if is_current and tonumber(till) > now then
          lines[#lines + 1] = {till, tonumber(count), of}
        end
      end
      lines_of[id] = lines
    end
    return lines_of[id]
  end

  function cancels.change(id)
    changed[id] = true
  end

  -- Return whether a message on a list is canceled, and use up its note.
  function cancels.use(id, body, note)
    local lines = cancels.lines(id, note)
    local of = #lines > 0 and mark(body)
    for i, line in ipairs(lines) do
      if line[3] == of then
        line[2] = line[2] - 1
        if line[2] == 0 then
          table.remove(lines, i)
        end
        changed[id] = true
        return true
      end
    end
    return false
  end

  -- Write the changed notes. After that, read no note: while the slot moves to another node, Redis
  -- refuses access to a key that a script has emptied.
  function cancels.write()
    if next(changed) == nil then
      return
    end
    for id in pairs(changed) do
      local lines, texts = lines_of[id], {}
      for i, line in ipairs(lines) do
        texts[i] = string.format('%s:%d:%s', line[1], line[2], line[3])
      end
      if #texts > 0 then
        redis.call('HSET', receives, CANCELS .. ':' .. id, table.concat(texts, '\n'))
      else
        redis.call('HDEL', receives, CANCELS .. ':' .. id)
      end
      cancels.ids = cancels.ids + (#texts > 0 and 1 or 0) - (lines.is_counted and 1 or 0)
    end
    if cancels.ids > 0 then
      local text = string.format('%.0f:%d', cancels.since, cancels.ids)
      redis.call('HSET', receives, CANCELS, text)
    else
      redis.call('HDEL', receives, CANCELS)
    end
  end

  return cancels
end

-- Return what is known of a message that is on a list, or was moved aside from it.
local function listed_message(key, body)
  local noted, of = redis.call('HGET', receives, key), mark(body)
  local count, whose = string.match(noted or '', '^(%d+):(%d+:%x+)')
  local is_own = whose == of
  count = is_own and tonumber(count) or 0
  local note = count > 0 and has_errors and redis.call('HGET', errors, key) or ''
  local is_taken = noted_mark(redis.call('HGET', receives, TAKEN .. key)) == of
  return {
    key = key, body = body, count = count, note = note, is_own = is_own, is_taken = is_taken,
    is_unique = is_taken or (is_own and noted_mark(noted) ~= nil),
    cost = #body + 4 * #note, -- a pattern reads it, which takes longer than moving it
  }
end

-- Make a dead letter of it, which frees the id of a unique push.
local function dead_letter(message)
  local errors_known = failures_of(message.note, message.body, message.count + 1)
  redis.call('XADD', dead, '*', 'key', message.key, 'body', message.body, 'reason', 'canceled',
    'count', message.count, 'time', now_text,
    unpack(last_fields(errors_known, message.is_unique)))
  if message.count > 0 then
    redis.call('HDEL', errors, message.key)
  end
  if message.is_own then
    redis.call('HDEL', receives, message.key)
  end
  if message.is_taken then
    redis.call('HDEL', receives, TAKEN .. message.key)
  end
end

-- Return where a range of PARKED begins that leaves out this place and those before it. Bodies
-- follow the place, and no two messages have the same one.
local function from_behind(place)
  return '[' .. string.sub(place, 1, -PLACE - 1)
    .. string.format('%016.0f', string.sub(place, -PLACE) + 1)
end
-- End of parts (edit them in lua/parts)

local found, keys, looked, bytes, slice = {}, {}, 0, 0, 1

-- Look at a message. Return whether the call has room for it.
local function look(member)
  if bytes >= BODY_BUDGET then
    return false -- its length was known only after it was read
  end
  local name = 3 + tonumber(string.sub(member, 1, 3))
  local before, body = decoded, string.sub(member, name + PLACE + 1)
  local key = wanted_key(body)
  if (decoded > DECODE_BUDGET and before > 0) or (key and #found == CANCELED) then
    return false
  end
  if key then
    local message = listed_message(key, body)
    message.member, message.head = member, string.sub(member, 1, name)
    found[#found + 1], keys[#keys + 1] = message, key
    bytes = bytes + message.cost - #body
  end
  after, looked, bytes = string.sub(member, 1, name + PLACE), looked + 1, bytes + #member
  return true
end

local function look_through()
  while looked < SEEN and bytes < BODY_BUDGET do
    local from = after == '' and '-' or from_behind(after)
    local members, size = redis.call('ZRANGEBYLEX', parked, from, '+', 'LIMIT', '0', slice), 0
    for _, member in ipairs(members) do
      if not look(member) then
        return
      end
      size = size + #member
    end
    if #members < slice then
      after = ''
      return
    end
    slice = size < #members * SHORT and math.min(AT_ONCE, 2 * slice) or 1
  end
end

-- The first write frees nothing but counts as freeing: a full server can be emptied in this way.
redis.call('ZREMRANGEBYRANK', parked, 1, 0)
look_through()
if #found == 0 then
  return {after, 0}
end
local cancels = open_cancels(redis.call('HGET', receives, CANCELS), keys)
for i, key in ipairs(keys) do
  cancels.lines(key, cancels.notes[i])
end
for _, message in ipairs(found) do
  redis.call('ZREM', parked, message.member)
  cancels.use(message.key, message.body)
  dead_letter(message)
  if redis.call('ZLEXCOUNT', parked, '[' .. message.head, '(' .. message.head .. ':') == 0 then
    redis.call('ZREM', turns, string.sub(message.head, 4))
  end
end
count_up('dead:canceled', #found)
cancels.write()
return {after, #found}
