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
-- KEYS[9] {name}NOTES      HASH    notes of unique messages and of those on lists; see README.md
-- KEYS[10] {name}RECORD    HASH    the settings of the queue, see record.lua
-- With groups: KEYS[11] {name}GROUPS:PARKED ZSET messages moved aside, see groups/pop.lua
--
-- ARGV[1] unique           done|taken  done: unless one is ready, delayed or in flight; taken:
--                          unless one is ready or delayed, also for another delivery
-- ARGV[2] replace          0|1         1: replace one that is still delayed, and has no count
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
local receives, delayed, errors, held = KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local notes, record, parked = KEYS[9], KEYS[10], KEYS[11]
local unique, replace, believed = ARGV[1], ARGV[2], tonumber(ARGV[3])
local when, due, pop_from = ARGV[4], tonumber(ARGV[5]), ARGV[6]

-- include: outside

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

local known = parked and 'groups' or pop_from
-- include: record

-- Check every type before the first write, so that an error means that nothing was stored.
redis.call('LLEN', ready)
redis.call('LLEN', handoff)
redis.call('ZCARD', backup)
redis.call('HLEN', context)
redis.call('HLEN', receives)
redis.call('ZCARD', delayed)
redis.call('HLEN', errors)
local has_notes = redis.call('HLEN', notes) > 0
if parked then
  redis.call('ZCARD', parked)
end

-- include: now
local expiry = string.format('%.0f', now + believed)

-- include: score_of, time_of, behind, store, unique_state

-- Remove one of these messages that is not due yet and has no count. Return whether one is.
local function remove(keys)
  for _, key in ipairs(keys) do
    if tonumber(redis.call('ZSCORE', delayed, key)) > now
      and redis.call('HEXISTS', receives, key) == 0 then
      redis.call('ZREM', delayed, key)
      redis.call('HDEL', context, key)
      redis.call('HDEL', errors, key)
      names.forget(key)
      return true
    end
  end
  return false
end

-- Store a message, and note it where later pushes of its id look.
local function store_and_note(id, body)
  local key = store(id, body)
  if key then
    redis.call('HDEL', receives, key) -- a count that the article's scripts left
    names.change(id, nil, select(2, id_in(key)))
  else
    names.change(id, nil, mark(body), expiry)
  end
end

local reply = {0}
for i = 1, messages do
  local id, body, found = ARGV[4 + 3 * i], ARGV[5 + 3 * i], ARGV[6 + 3 * i]
  local state, detail = state_of(id, string.match(found, '^%-(.*)$'))
  local status = 'queued'
  if state == 'search' and found == '+' .. detail then
    believe(id, expiry)
  elseif state == 'search' then
    status = 'search'
  elseif state == 'free' or (state == 'leased' and unique == 'taken') then
    store_and_note(id, body)
    status = 'stored'
  elseif state == 'delayed' and replace == '1' and remove(detail) then
    store_and_note(id, body)
    status = 'replaced'
  end
  reply[2 * i], reply[2 * i + 1] = status, status == 'search' and detail or ''
end
-- The notes come last: without them a message may be stored twice, but no id is blocked.
names.write()
reply[1] = when == 'front' and on_list or 0
return reply
