-- push_unique: push messages, each unless one with its id is in the queue.
--
-- KEYS[1] {name}           LIST    ready messages: pushed on the left, taken from the right
-- KEYS[2] {name}BACKUP     ZSET    lease key -> deadline, µs since the epoch
-- KEYS[3] {name}CONTEXT    HASH    lease key -> the message as it was pushed
-- KEYS[4] {name}HANDOFF    LIST    front of the ready list: messages handed to a blocked consumer
-- KEYS[5] {name}RECEIVES   HASH    lease key -> receive count of redelivered messages
-- KEYS[6] {name}DELAYED    ZSET    lease key -> due time, µs since the epoch
-- KEYS[7] {name}ERRORS     HASH    lease key -> why deliveries of it failed; see nack.lua
-- KEYS[8] {name}HELD       ZSET    held list -> µs from which its messages are the queue's
-- With groups: KEYS[9] {name}GROUPS:PARKED ZSET messages moved aside, see groups/pop.lua
--
-- ARGV[1] unique           done|taken  done: unless one is ready, delayed or in flight; taken:
--                          unless one is ready or delayed, also for another delivery
-- ARGV[2] replace          0|1         1: replace one that is still delayed
-- ARGV[3] believed         integer 1..315360000000000  µs for which a note is believed
-- ARGV[4] when             now|front|delay|at    now: onto the ready list; front: see push_front
-- ARGV[5] due              integer 0..9007199254740991, µs, from now or from the epoch
-- ARGV[6] pop_from         right|left  the end that is popped: push onto the other
-- ARGV[7] messages         1..100 groups of: id; body, in which pop finds the id; and what a search
--                          has found after the reply search: empty at first, then the notes of the
--                          reply behind a + if the message is on a list, and behind a - if not
--
-- Returns {on the list, status, notes, status, notes, ...}. on the list: see push_front. status of
-- each message: stored, replaced, queued (another one is in the queue), or search: search all lists
-- of the queue for the id, the hand-off list after the ready list, then with groups what was moved
-- aside, and call again. notes is empty for the others.
-- Atomic because another push of the id must not come between the look and the push.
-- Cost: O(messages log in-flight), at most 100.
-- Roles: scheduler, doctor
local ready, backup, context, handoff = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local receives, delayed, errors, held, parked = KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local unique, replace, believed = ARGV[1], ARGV[2], tonumber(ARGV[3])
local when, due, pop_from = ARGV[4], tonumber(ARGV[5]), ARGV[6]

-- Parts: outside
local function outside(number, low, high)
  return not (number and number >= low and number <= high and number % 1 == 0)
end
-- End of parts (edit them in lua/parts)

local messages = (#ARGV - 6) / 3
if (unique ~= 'done' and unique ~= 'taken') or (replace ~= '0' and replace ~= '1')
  or outside(believed, 1, 315360000000000) or outside(due, 0, 9007199254740991)
  or (when ~= 'now' and when ~= 'front' and when ~= 'delay' and when ~= 'at')
  or (pop_from ~= 'right' and pop_from ~= 'left') or outside(messages, 1, 100) then
  return redis.error_reply('ACKQ_ARGUMENT push_unique: an argument is out of range')
end
for i = 7, #ARGV, 3 do
  if #ARGV[i] < 1 or #ARGV[i] > 512 or string.byte(ARGV[i]) == 0 then
    return redis.error_reply('ACKQ_ARGUMENT push_unique: an id has 1..512 bytes, the first not NUL')
  end
end

-- Check every type before the first write, so that an error means that nothing was stored.
redis.call('LLEN', ready)
redis.call('LLEN', handoff)
redis.call('ZCARD', backup)
redis.call('HLEN', context)
redis.call('HLEN', receives)
redis.call('ZCARD', delayed)
redis.call('HLEN', errors)
if parked then
  redis.call('ZCARD', parked)
end

local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local expiry = string.format('%.0f', now + believed)

-- Parts: score_of, time_of, behind, store, mark, unique_notes, unique_state, note_listed
-- Return the score of a due time in µs.
local function score_of(time)
  return string.format('%.0f', time)
end

-- Return the due time in µs that a score means.
local function time_of(number)
  return tonumber(number)
end

local GAP = 100 -- µs without a message that a row may have, beside as many as it has messages
local GAPS = 100 -- such gaps that one call passes over

-- Return the first microsecond behind the messages for this time, whose score is text. They are a
-- microsecond apart, in the order of the pushes, because Redis sorts equal scores by key. Some of
-- this row may be gone: canceled, or made ready. Once its time has come, its front may be taken
-- already: look for the rest of it.
local function behind(zset, time, text)
  local last = time
  if time > now then
    if redis.call('ZCOUNT', zset, text, score_of(time + GAP - 1)) == 0 then
      return time
    end
  else
    local head = redis.call('ZRANGEBYSCORE', zset, text, score_of(math.min(time + 1000000, now)),
      'WITHSCORES', 'LIMIT', '0', '2')
    if head[4] and time_of(head[4]) - time_of(head[2]) < GAP then
      last, text = time_of(head[2]), head[2]
    end
  end
  for _ = 1, GAPS do
    local first, width = last, 256
    local count
    repeat
      width = 16 * width
      count = redis.call('ZCOUNT', zset, text, score_of(first + width - 1))
    until 2 * count < width
    -- Only the row itself has messages this close together.
    local tail = redis.call('ZREVRANGEBYSCORE', zset, score_of(first + 2 * count + GAP - 1), text,
      'WITHSCORES', 'LIMIT', '0', '1')
    if not tail[2] then
      return time
    end
    last, text = time_of(tail[2]), tail[2]
    if last <= first + 2 * count then
      break
    end
  end
  return last + 1
end

local LATEST_DUE = 9007199254740991 -- µs
-- A consumer that waits wakes up for the ready list alone: that is the front while it is empty.
local to_front = when == 'front' and redis.call('EXISTS', ready) == 1
local on_list, later = 0, 0 -- messages stored on the ready list, and for later

-- Store a message, and return its lease key if it is for later. Messages of one call are a
-- microsecond apart, since Redis sorts equal scores by key.
local function store(key, body)
  if when == 'now' or when == 'front' then
    if to_front then
      redis.call('LPUSH', handoff, body)
    else
      redis.call(pop_from == 'left' and 'RPUSH' or 'LPUSH', ready, body)
      on_list = on_list + 1
    end
    return
  end
  if later == 0 then
    due = when == 'delay' and due + now or behind(delayed, due, score_of(due))
  end
  local due_text = score_of(math.min(due + later, LATEST_DUE))
  later = later + 1
  if key == '' or string.byte(key) == 0 or redis.call('HEXISTS', context, key) == 1 then
    local derived = 0
    repeat
      derived = derived + 1
      key = '\0' .. due_text .. string.format(':%.0f:%04d', now, derived)
    until redis.call('HEXISTS', context, key) == 0
  end
  redis.call('ZADD', delayed, due_text, key)
  redis.call('HSET', context, key, body)
  return key
end

-- What ties a count on the list, a unique push or a note of failures to its body: another message
-- may have the same id.
local function mark(body)
  return #body .. ':' .. redis.sha1hex(string.sub(body, 1, 512) .. string.sub(body, -512))
end

-- RECEIVES notes each message of a unique push: on a list with its count, the mark of its body, and
-- the µs until which the note is believed, or 0; elsewhere with a : instead of a count, or a space
-- behind it. The field is the id, so an ack deletes the note. With "taken" it is another field
-- while the message is on a list, because one of this id may be in flight; pop deletes it. That
-- field may also hold the lease key of a delayed message, if it is not the id: with - instead of :,
-- because pop sweeps notes with a :.
local TAKEN = '\0unique:'

-- Return where a lease key is: delayed, ended, leased or nil.
local function whereabouts(key)
  if redis.call('ZSCORE', delayed, key) then
    return 'delayed'
  end
  local deadline = redis.call('ZSCORE', backup, key)
  return deadline and (tonumber(deadline) <= now and 'ended' or 'leased') or nil
end

local function is_believed(note)
  local moment = string.match(note, '^%d+:%d+:%x+:(%d+)$')
  return moment and tonumber(moment) > now
end

-- Return whether a message of this id is in the queue: 'free', 'leased', 'ready', or 'delayed' and
-- its lease key. Or 'search' and its notes, if only a search of the lists can tell. ``gone`` are
-- notes of a message that an earlier search did not find.
local function state_of(id, gone)
  local found = redis.call('HMGET', receives, id, TAKEN .. id)
  local place, noted, taken = whereabouts(id), found[1] or '', found[2] or ''
  local key = string.byte(taken) == 0 and (string.gsub(taken, '-', ':'))
  local other = key and whereabouts(key)
  if other == 'delayed' or (place == 'delayed' and (taken == '' or key)) then
    return 'delayed', other == 'delayed' and key or id
  elseif place == 'delayed' or place == 'ended' or other == 'ended' then
    return 'ready'
  end
  noted = not place and string.find(noted, ':', 1, true) and noted or ''
  taken = not key and taken or ''
  local notes = noted .. '|' .. taken
  if notes == '|' or notes == gone or (redis.call('EXISTS', ready, handoff, held) == 0
    and not (parked and redis.call('EXISTS', parked) == 1)) then
    return (place or other) and 'leased' or 'free'
  end
  if is_believed(noted) or is_believed(taken) then
    return 'ready'
  end
  return 'search', notes
end

-- Believe the notes of a message that is on a list until another moment.
local function believe(id, notes, moment)
  local noted, taken = string.match(notes, '^(.-)|(.*)$')
  for field, note in pairs({[id] = noted, [TAKEN .. id] = taken}) do
    if note ~= '' then
      local start = string.match(note, '^%d+:%d+:%x+') or '0:0:0'
      redis.call('HSET', receives, field, start .. ':' .. moment)
    end
  end
end

-- Note a message of a unique push that is on a list, believed until a moment. ``is_free``: none of
-- the id is in flight, so whatever is noted of it is of a message that is gone.
local function note_listed(id, body, moment, is_free)
  if is_free then
    redis.call('HDEL', receives, id, TAKEN .. id)
  end
  redis.call('HSET', receives, unique == 'done' and id or TAKEN .. id,
    '0:' .. mark(body) .. ':' .. moment)
  if unique == 'taken' then
    redis.call('HSET', receives, TAKEN, ':') -- tells pop that there are such notes
  end
end
-- End of parts (edit them in lua/parts)

-- Remove a delayed message that is not due yet, and return whether it is.
local function remove(key)
  if tonumber(redis.call('ZSCORE', delayed, key)) <= now then
    return false
  end
  redis.call('ZREM', delayed, key)
  redis.call('HDEL', context, key)
  redis.call('HDEL', receives, key)
  redis.call('HDEL', errors, key)
  return true
end

-- Store a message, and note it where later pushes of its id look. The notes come last: without
-- them a message may be stored twice, but no id is blocked.
local function store_and_note(id, body, is_free)
  local key = store(id, body)
  if not key then
    return note_listed(id, body, expiry, is_free)
  end
  if is_free then
    redis.call('HDEL', receives, id, TAKEN .. id)
  end
  redis.call('HSET', receives, key, ':')
  if key ~= id then
    redis.call('HSET', receives, TAKEN .. id, (string.gsub(key, ':', '-')))
  end
end

local reply = {0}
for i = 1, messages do
  local id, body, known = ARGV[4 + 3 * i], ARGV[5 + 3 * i], ARGV[6 + 3 * i]
  local state, detail = state_of(id, string.match(known, '^%-(.*)$'))
  local status = 'queued'
  if state == 'search' and known == '+' .. detail then
    believe(id, detail, expiry)
  elseif state == 'search' then
    status = 'search'
  elseif state == 'free' or (state == 'leased' and unique == 'taken') then
    store_and_note(id, body, state == 'free')
    status = 'stored'
  elseif state == 'delayed' and replace == '1' and remove(detail) then
    store_and_note(id, body, not whereabouts(id))
    status = 'replaced'
  end
  reply[2 * i], reply[2 * i + 1] = status, status == 'search' and detail or ''
end
reply[1] = when == 'front' and on_list or 0
return reply
