-- pick: take chosen messages out of a list: to the dead letters, or in front of all other messages.
--
-- KEYS[1] {name}           LIST    ready messages: pushed on the left, taken from the right
-- KEYS[2] {name}HANDOFF    LIST    front of the ready list: messages handed to a blocked consumer
-- KEYS[3] {name}RECEIVES   HASH    lease key -> receive count of redelivered messages; and notes of
--                                  canceled messages on the lists
-- KEYS[4] {name}DEAD       STREAM  key, body, reason, count, time, errors of dead letters
-- KEYS[5] {name}ERRORS     HASH    lease key -> why deliveries of it failed; see nack.lua
-- KEYS[6] {name}COUNTERS   HASH    counts, kept while a client watches; see watch.lua
-- Left end: KEYS[7] {name}HELD STRING, the record, see pop_from.lua
--
-- ARGV[1] verb             cancel|run_now
-- ARGV[2] place            ready|handoff               the list to look through
-- ARGV[3] from             integer 0..9007199254740991 how many of its messages, counted from the
--                          end that is taken, are still to be looked at
-- ARGV[4] ends             integer 0..9007199254740991 µs: when notes end; 0 in the first call,
--                          then as the last call returned it
-- ARGV[5] ids              1..1000 lease keys
--
-- Returns {from, size, ends, picked, left}: the next from, 0 at the end; how long the list is; the
-- next ends; how many messages were picked, and how many were left in place.
-- A message within 50,000 of an end leaves the list. To leave the middle takes Redis too long. So
-- run_now leaves a message there. cancel notes that it is canceled, and pop, or run_now once it is
-- near an end, makes it a dead letter. The note is tied to the body, so it applies to no other
-- message of this id, and counts equal messages. It ends after a week, or when a pop finds the
-- lists empty. A call with another ends counts again from zero, so a message that is canceled twice
-- is noted once.
-- Atomic because a message must always be in one place, and a note must name what is in the list.
-- Cost: O(size of the list) to reach the window; at most 2,000 messages are looked at, 100 picked,
-- 1 MiB of bodies and notes read, plus one message, and 72 KiB decoded.
-- Redis reports no element lengths: behind short messages up to 16 of any length are read at once,
-- and 64 in the middle of a long list, which takes Redis long to reach.
-- Roles: operator, doctor
local ready, handoff, receives = KEYS[1], KEYS[2], KEYS[3]
local dead, errors, counters, record = KEYS[4], KEYS[5], KEYS[6], KEYS[7]
local verb, place, from, ends = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])

local PICKED = 100 -- messages one call may pick
local NEAR = 50000 -- messages that Redis may pass over to remove some
local REACHED = 2000000 -- messages that Redis may pass over to reach those that are picked
local NOTED = 10000 -- ids that may have a note
local BODIES = 16 -- bodies of one id that may have a note
local SWEPT = 100 -- notes that a call looks at if there are too many
local HEAD = 521 -- bytes in which the longest id ends; a pattern must not walk a long body

-- Parts: outside
local function outside(number, low, high)
  return not (number and number >= low and number <= high and number % 1 == 0)
end
-- End of parts (edit them in lua/parts)

local walked = ({ready = ready, handoff = handoff})[place]
local is_right = not record or place == 'handoff'
if not walked or not (verb == 'cancel' or verb == 'run_now') then
  return redis.error_reply('ACKQ_ARGUMENT pick: no such verb, or no such place')
end
if outside(from, 0, 9007199254740991) or outside(ends, 0, 9007199254740991) then
  return redis.error_reply('ACKQ_ARGUMENT pick: from and ends are 0..9007199254740991')
end
if #ARGV < 5 or #ARGV > 1004 then
  return redis.error_reply('ACKQ_ARGUMENT pick: 1..1000 ids')
end
if record and redis.call('GET', record) ~= 'left' then
  return redis.error_reply('ACKQ_POP_FROM pick: no record that this queue is popped from the left')
end
local wanted = {}
for i = 5, #ARGV do
  wanted[ARGV[i]] = true
end

local length = ({ready = redis.call('LLEN', ready), handoff = redis.call('LLEN', handoff)})[place]
redis.call('HLEN', receives)
redis.call('XLEN', dead)
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
-- Parts: cancels, canceled_message, walk
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

local BODY_BUDGET = 1048576 -- bytes of bodies one call may read
local MAX_IN_CALL = 2000 -- messages of a list one call may look at
local PASSED = 5000000 -- messages of a list that Redis may pass over to reach those that are read
local SLICE = 16 -- bodies read at a time, as long as those before were short
local DEEP, DEEP_SLICE = 20000, 64 -- so far from both ends, each slice takes Redis long to reach
local SHORT = 4096 -- bytes

-- Walk over a list towards the end that is taken. Call ``look`` with each body and with how many
-- messages are taken before it, until the budget is spent. It returns what the message costs in
-- bytes, or nothing if the message must wait for the next call. Return how many messages are left
-- and how long the list is.
local function walk(list, from_right, start, look)
  local size = redis.call('LLEN', list)
  local left, bytes, looked, passed, slice = math.min(start, size), 0, 0, 0, 1
  while left > 0 and looked < MAX_IN_CALL and bytes < BODY_BUDGET and passed < PASSED do
    local some, distance = math.min(slice, left), math.min(left, size - left)
    local first = from_right and -left or left - some
    local bodies = redis.call('LRANGE', list, string.format('%.0f', first),
      string.format('%.0f', first + some - 1))
    for i = 1, some do
      local cost = look(bodies[from_right and i or some + 1 - i], left - 1)
      if not cost then
        return left, size
      end
      left, bytes, looked = left - 1, bytes + cost, looked + 1
    end
    passed = passed + distance
    local most = distance > DEEP and DEEP_SLICE or SLICE
    slice = bytes < looked * SHORT and math.min(most, 2 * slice) or 1
  end
  return left, size
end
-- End of parts (edit them in lua/parts)

if ends == 0 then
  ends = now + CANCELS_LAST
end
local ends_text = string.format('%.0f', ends)

local found = {}
local left, size = walk(walked, is_right, from, function(body, offset)
  local distance = math.min(offset, length - offset)
  if #found == PICKED or (distance <= NEAR and #found * distance > REACHED) then
    return
  end
  local before = decoded
  local key = wanted_key(body)
  if decoded > DECODE_BUDGET and before > 0 then
    return
  end
  if not key then
    return #body
  end
  local message = listed_message(key, body)
  message.offset = offset
  found[#found + 1] = message
  return message.cost
end)

local reply = {string.format('%.0f', left), size, ends_text, 0, 0}
if #found == 0 then
  return reply
end

local keys = {}
for i, message in ipairs(found) do
  keys[i] = message.key
end
local cancels = open_cancels(redis.call('HGET', receives, CANCELS), keys)
for i, key in ipairs(keys) do
  cancels.lines(key, cancels.notes[i])
end
-- Without notes, or with notes that began since the first call, earlier ends would not count.
ends = math.max(ends, cancels.since + CANCELS_LAST)
ends_text = string.format('%.0f', ends)
reply[3] = ends_text

local added = 0 -- ids that get their first note

-- Note that a message is canceled, and return whether there was room for the note.
local function note_cancel(key, body)
  local lines, of = cancels.lines(key), mark(body)
  for _, line in ipairs(lines) do
    if line[3] == of then
      line[2] = line[1] == ends_text and line[2] + 1 or 1
      line[1] = ends_text
      cancels.change(key)
      return true
    end
  end
  local is_first = #lines == 0 and not lines.is_counted
  if (is_first and cancels.ids + added >= NOTED) or #lines >= BODIES then
    return false
  end
  added = added + (is_first and 1 or 0)
  lines[#lines + 1] = {ends_text, 1, of}
  cancels.change(key)
  return true
end

local from_taken, from_pushed = math.min(from, size), size - left

-- Take what was found out of the list. Redis removes elements by their value only, so give these
-- one that no message has.
local function take_out(list, moved)
  local gone = '\0canceled:' .. now_text
  local pushed = place == 'handoff' and moved or 0
  for _, message in ipairs(found) do
    local index = is_right and -message.offset - pushed - 1 or message.offset
    redis.call('LSET', list, string.format('%.0f', index), gone)
  end
  local is_from_head = (from_taken <= from_pushed) ~= is_right
  redis.call('LREM', list, is_from_head and #found or -#found, gone)
end

-- The first write frees nothing but counts as freeing: a full server can be emptied in this way.
redis.call('HDEL', receives, '')
if math.min(from_taken, from_pushed) <= NEAR then
  local moved = 0
  for _, message in ipairs(found) do
    local is_canceled = cancels.use(message.key, message.body)
    if verb == 'cancel' or is_canceled then
      dead_letter(message)
    else
      redis.call('RPUSH', handoff, message.body)
      moved = moved + 1
    end
  end
  take_out(walked, moved)
  reply[4] = verb == 'cancel' and #found or moved
  count_up('dead:canceled', #found - moved)
else
  for _, message in ipairs(found) do
    local is_noted = verb == 'cancel' and note_cancel(message.key, message.body)
    reply[is_noted and 4 or 5] = reply[is_noted and 4 or 5] + 1
  end
  if reply[5] > 0 and verb == 'cancel' then
    local noted = redis.call('HRANDFIELD', receives, SWEPT, 'WITHVALUES')
    for i = 1, #noted, 2 do
      local id = string.match(noted[i], '^%zcanceled:(.*)$')
      if id and #cancels.lines(id, noted[i + 1]) == 0 then
        cancels.change(id)
      end
    end
  end
end
cancels.write()
return reply
