-- peek: return messages without taking them.
--
-- KEYS[1] {name}           LIST    ready messages: pushed on the left, taken from the right
-- KEYS[2] {name}BACKUP     ZSET    lease key -> deadline, µs since the epoch
-- KEYS[3] {name}CONTEXT    HASH    lease key -> the message as it was pushed
-- KEYS[4] {name}HANDOFF    LIST    front of the ready list: messages handed to a blocked consumer
-- KEYS[5] {name}RECEIVES   HASH    lease key -> receive count of redelivered messages
-- KEYS[6] {name}DELAYED    ZSET    lease key -> due time, µs since the epoch
-- KEYS[7] {name}HELD       ZSET    held list -> µs from which its messages are the queue's
-- KEYS[8] {name}CLAIM:<group>:<batch>  LIST  any number of held lists; may be absent
--
-- ARGV[1] state            ready|in_flight|delayed     ready: expired, due, handed over, listed
-- ARGV[2] offset           integer 0..9007199254740991 messages to skip
-- ARGV[3] wanted           integer 1..1000             messages
-- ARGV[4] front            integer 0..1000             how many of the held lists, the first ones,
--                                                      go in front of the ready list
-- ARGV[5] pop_from         right|left                  the end that is popped; default right
--
-- Returns {place, key, body, count, at, ...}, five values a message, in the order of
-- delivery; in flight, claims come last. place: backup|delayed|list|claim; key: empty
-- on a list and in a claim; count: deliveries so far; at: the score, 0 on a list. Fewer than
-- wanted: the end, or 1 MiB of bodies.
-- Atomic because all places together form one sequence.
-- Cost: O(wanted log in-flight + offset in lists), at most 1 MiB of bodies plus one message.
-- Redis reports no element lengths: up to 16 messages are read at once, as many as fit if they are
-- as long as those before.
-- Roles: viewer, operator, doctor
local ready, backup, context, handoff = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local receives, delayed, held = KEYS[5], KEYS[6], KEYS[7]
local state, offset = ARGV[1], tonumber(ARGV[2])
local wanted, front, pop_from = tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5] or 'right'

local BODY_BUDGET = 1048576 -- bytes
local SLICE = 16 -- bodies of a list read at a time

-- include: outside, next_slice

if outside(offset, 0, 9007199254740991) or outside(wanted, 1, 1000)
  or outside(front, 0, 1000) or (pop_from ~= 'right' and pop_from ~= 'left')
  or (state ~= 'ready' and state ~= 'in_flight' and state ~= 'delayed') then
  return redis.error_reply('ACKQ_ARGUMENT peek: an argument is out of range')
end

local clock = redis.call('TIME')
local now = string.format('%.0f', clock[1] * 1000000 + clock[2])
local reply, bytes = {}, 0

local function add(place, key, body, count, at)
  for _, value in ipairs({place, key, body, count, at}) do
    reply[#reply + 1] = value
  end
  wanted = wanted - 1
  bytes = bytes + #body
end

-- By rank, because LIMIT walks over all members that it skips.
local function look_in_set(zset, place, past, absent)
  local first, last = redis.call('ZCOUNT', zset, '-inf', now), redis.call('ZCARD', zset)
  if past then
    first, last = 0, first
  end
  if first + offset >= last then
    offset = offset - (last - first)
    return
  end
  first = first + offset
  local entries = redis.call('ZRANGE', zset, string.format('%.0f', first),
    string.format('%.0f', math.min(last, first + wanted) - 1), 'WITHSCORES')
  offset = 0
  for i = 1, #entries, 2 do
    if bytes >= BODY_BUDGET then
      return
    end
    local key = entries[i]
    add(place, key, redis.call('HGET', context, key) or '',
      tonumber(redis.call('HGET', receives, key)) or absent, entries[i + 1])
  end
end

local function look_in_list(list, place, count, at, end_of_list)
  local size = redis.call('LLEN', list)
  if offset >= size then
    offset = offset - size
    return
  end
  -- In slices, because LINDEX walks the list from its end for each body.
  local slice, largest = 1, 1
  while offset < size and wanted > 0 and bytes < BODY_BUDGET do
    local some = math.min(slice, wanted)
    local first = end_of_list == 'left' and offset or -offset - some
    local bodies = redis.call('LRANGE', list,
      string.format('%.0f', first), string.format('%.0f', first + some - 1))
    for i = 1, #bodies do
      if bytes >= BODY_BUDGET then
        return
      end
      local body = bodies[end_of_list == 'left' and i or #bodies + 1 - i]
      add(place, '', body, count, at)
      largest = math.max(largest, #body)
    end
    slice = next_slice(slice, SLICE, bytes, largest)
    offset = offset + #bodies
  end
  offset = 0
end

-- Running claims, and the lists to be returned, by their target.
local claims, before, behind = {}, {}, {}
for i, list in ipairs(KEYS) do
  local score = i > 7 and redis.call('ZSCORE', held, list)
  if score and redis.call('TYPE', list).ok == 'list' then
    local place = i > 7 + front and behind or before
    if tonumber(score) > tonumber(now) then
      place = claims
    end
    place[#place + 1] = {list, score}
  end
end
table.sort(claims, function(one, other)
  return tonumber(one[2]) < tonumber(other[2])
end)

local function look_in_lists(lists, place, count, end_of_list)
  for _, entry in ipairs(lists) do
    if wanted > 0 then
      look_in_list(entry[1], place, count, place == 'claim' and entry[2] or '0', end_of_list)
    end
  end
end

if state == 'in_flight' then
  look_in_set(backup, 'backup', false, 1)
  look_in_lists(claims, 'claim', 1, pop_from)
elseif state == 'delayed' then
  look_in_set(delayed, 'delayed', false, 0)
else
  look_in_set(backup, 'backup', true, 1)
  if wanted > 0 then
    look_in_set(delayed, 'delayed', true, 0)
  end
  look_in_lists(before, 'list', 0, pop_from)
  look_in_lists({{handoff}}, 'list', 0, 'right')
  look_in_lists({{ready}}, 'list', 0, pop_from)
  look_in_lists(behind, 'list', 0, 'right')
end
return reply
