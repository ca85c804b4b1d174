-- pick: take chosen messages out of a list: to the dead letters, or in front of all other messages.
--
-- KEYS[1] {name}           LIST    ready messages: pushed on the left, taken from the right
-- KEYS[2] {name}HANDOFF    LIST    front of the ready list: messages handed to a blocked consumer
-- KEYS[3] {name}NOTES      HASH    notes of unique messages and of those on lists; see README.md
-- KEYS[4] {name}DEAD       STREAM  key, body, reason, count, time, errors of dead letters
-- KEYS[5] {name}ERRORS     HASH    lease key -> why deliveries of it failed; see nack.lua
-- KEYS[6] {name}COUNTERS   HASH    counts, kept while a client watches; see watch.lua
-- KEYS[7] {name}RECORD     HASH    the settings of the queue, see record.lua
--
-- ARGV[1] verb             cancel|run_now
-- ARGV[2] place            ready|handoff               the list to look through
-- ARGV[3] from             integer 0..9007199254740991 how many of its messages, counted from the
--                          end that is taken, are still to be looked at
-- ARGV[4] began            integer 0..9007199254740991 µs: when the cancel began; 0 in the first
--                          call, then as the last call returned it
-- ARGV[5] known            right|left|groups           what the caller knows of the record
-- ARGV[6] ids              1..1000 lease keys
--
-- Returns {from, size, began, picked, left}: the next from, 0 at the end; how long the list is; the
-- next began; how many messages were picked, and how many were left in place.
-- A message within 50,000 of an end leaves the list. To leave the middle takes Redis too long. So
-- run_now leaves a message there. cancel notes that it is canceled, and pop, or run_now once it is
-- near an end, makes it a dead letter, and so does a claim. The note is tied to the body, so it
-- applies to no other message of this id, and counts equal messages. It ends after a week, or
-- when a pop or a claim finds the lists empty. A call with another began counts again from zero, so
-- a message that is canceled twice is noted once.
-- Atomic because a message must always be in one place, and a note must name what is in the list.
-- Cost: O(size of the list) to reach the window; at most 2,000 messages are looked at, 100 picked,
-- 1 MiB of bodies and notes read, plus one message, and 72 KiB decoded.
-- Redis reports no element lengths: up to 16 messages are read at once, and 64 in the middle of a
-- long list, which takes Redis long to reach; as many as fit if they are as long as those before.
-- Roles: operator, doctor
local ready, handoff, notes = KEYS[1], KEYS[2], KEYS[3]
local dead, errors, counters, record = KEYS[4], KEYS[5], KEYS[6], KEYS[7]
local verb, place, from, began = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local known = ARGV[5]

local BODY_BUDGET = 1048576 -- bytes of bodies one call may read
local PICKED = 100 -- messages one call may pick
local NEAR = 50000 -- messages that Redis may pass over to remove some
local REACHED = 2000000 -- messages that Redis may pass over to reach those that are picked
local HEAD = 521 -- bytes in which the longest id ends; a pattern must not walk a long body

-- include: outside

local walked = ({ready = ready, handoff = handoff})[place]
local is_right = known ~= 'left' or place == 'handoff'
if not walked or not (verb == 'cancel' or verb == 'run_now') then
  return redis.error_reply('ACKQ_ARGUMENT pick: no such verb, or no such place')
end
if outside(from, 0, 9007199254740991) or outside(began, 0, 9007199254740991) then
  return redis.error_reply('ACKQ_ARGUMENT pick: from and began are 0..9007199254740991')
end
if #ARGV < 6 or #ARGV > 1005 then
  return redis.error_reply('ACKQ_ARGUMENT pick: 1..1000 ids')
end
-- include: record
if known == 'left' and not recorded[1] then
  return refusal()
end
local wanted = {}
for i = 6, #ARGV do
  wanted[ARGV[i]] = true
end

local length = ({ready = redis.call('LLEN', ready), handoff = redis.call('LLEN', handoff)})[place]
local has_notes = redis.call('HLEN', notes) > 0
redis.call('XLEN', dead)
local has_errors = redis.call('HLEN', errors) > 0
local watched = redis.call('HEXISTS', counters, 'since') == 1
-- include: now
local now_text = string.format('%.0f', now)

-- include: count_up, natural_key, wanted_key, listed_message, next_slice, walk

began = began == 0 and now or began
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

local reply = {string.format('%.0f', left), size, string.format('%.0f', began), 0, 0}
if #found == 0 then
  return reply
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
redis.call('LTRIM', ready, '0', '-1')
if math.min(from_taken, from_pushed) <= NEAR then
  local moved = 0
  for _, message in ipairs(found) do
    if verb == 'cancel' or listed.of(message.field).canceled > 0 then
      bury_listed(message)
    else
      redis.call('RPUSH', handoff, message.body)
      moved = moved + 1
    end
  end
  take_out(walked, moved)
  reply[4] = verb == 'cancel' and #found or moved
  count_up('dead:canceled', #found - moved)
else
  reply[verb == 'cancel' and 4 or 5] = #found
  for _, message in ipairs(verb == 'cancel' and found or {}) do
    reply[3] = string.format('%.0f', listed.cancel(message.field, began))
  end
end
listed.write()
names.write()
return reply
