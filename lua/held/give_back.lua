-- held/give_back: move messages of a list that is no longer held into the queue, step by step.
--
-- KEYS[1] {name}           LIST    ready messages: pushed on the left, taken from the right
-- KEYS[2] {name}HANDOFF    LIST    front of the ready list: messages handed to a blocked consumer
-- KEYS[3] {name}CONTEXT    HASH    lease key -> the message as it was pushed
-- KEYS[4] {name}DELAYED    ZSET    lease key -> due time, µs since the epoch
-- KEYS[5] {name}HELD       ZSET    held list -> µs from which its messages are the queue's
-- KEYS[6] {name}HELDROWS   HASH    held list -> messages in it
-- KEYS[7] {name}CLAIM:<group>:<batch>  LIST  the list, or one of STAGED:; its right end is
--                                            delivered first, a claim's left end if the queue is
--                                            popped from the left
-- KEYS[8] {name}COUNTERS   HASH    counts, kept while a client watches; see watch.lua
-- Left end: KEYS[9] {name}HELD STRING, the record, see pop_from.lua; KEYS[5] is {name}HELD:LEFT
--
-- ARGV[1] mode             front|back|delayed  target: before all ready messages, behind them, or
--                          DELAYED, for messages of the form <due time µs>:<message>
--
-- Returns {moved, left}: call again while messages are left. A list whose lease still runs, or that
-- is not held, is unchanged: {0, 0}.
-- Atomic because a message must always be either held or ready, never both.
-- Cost: O(moved), O(moved log delayed) for delayed: at most 1,000 messages and 1 MiB of bodies,
-- or 500 delayed messages and half a MiB, plus one message.
-- Roles: consumer, claimer, pipeline, writer, worker, operator, doctor
local ready, handoff, context, delayed = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local held, heldrows, list = KEYS[5], KEYS[6], KEYS[7]
local counters, record = KEYS[8], KEYS[9]
local mode = ARGV[1]

local CHUNK = {front = 1000, back = 1000, delayed = 500} -- messages one call may move
local BODY_BUDGET = 1048576 -- bytes of bodies one call may move; delayed ones cost double
local WOKEN = 100 -- messages that go to the ready list, where they wake those who wait

if not CHUNK[mode] then
  return redis.error_reply('ACKQ_ARGUMENT held/give_back: mode is front, back or delayed')
end

redis.call('LLEN', ready)
local woken = redis.call('LLEN', handoff) == 0 and WOKEN or 0
redis.call('HLEN', context)
redis.call('ZCARD', delayed)
redis.call('HLEN', heldrows)
local watched = redis.call('HEXISTS', counters, 'since') == 1
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local score = tonumber(redis.call('ZSCORE', held, list) or 'inf')
if score > now then
  return {0, 0}
end
-- A key of another type belongs to another program: leave it alone and stop tracking it.
if redis.call('TYPE', list).ok ~= 'list' then
  redis.call('ZREM', held, list)
  redis.call('HDEL', heldrows, list)
  return {0, 0}
end

-- The first write frees nothing but counts as freeing, so that it is allowed at maxmemory.
redis.call('ZREMRANGEBYRANK', held, 1, 0)
-- The claim's driver must see at once that the list is being returned.
redis.call('ZADD', held, 'XX', '0', list)
redis.call('PERSIST', list)

local moved, bytes, derived, latest = 0, 0, 0, {}

-- Parts: score_of, time_of, behind, count_up, leading_id
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

-- Count for those who watch. A field that is no number is left alone.
local function count_up(field, number)
  if watched == nil and number > 0 then
    watched = redis.pcall('HEXISTS', counters, 'since') == 1
  end
  if watched and number > 0 then
    redis.pcall('HINCRBY', counters, field, number)
  end
end

local HEAD = 521 -- bytes in which the longest id ends; a pattern must not walk a long body

-- Return the id of a JSON object that begins with it, as ackq's own messages do, or nil.
local function leading_id(body)
  local head = string.sub(body, 1, HEAD)
  local id = string.match(head, '^{"id":%s?"([^"\\%c]+)"')
    or string.match(head, '^{"id":%s?([1-9]%d?%d?%d?%d?%d?%d?%d?%d?%d?%d?%d?%d?%d?%d?)[,}]')
  return id and #id <= 512 and id or nil
end
-- End of parts (edit them in lua/parts)

-- Read the id as pop does, but only from ackq's own messages; others get a derived key.
local function store_later(text)
  local due, first = string.match(text, '^(%d+):()')
  due = tonumber(due or now)
  latest[due] = latest[due] and latest[due] + 1
    or behind(delayed, due, score_of(due))
  local body = string.sub(text, first or 1)
  local due_text = score_of(math.min(latest[due], 9007199254740991))
  local key = leading_id(body)
  if not key or redis.call('HEXISTS', context, key) == 1 then
    repeat
      derived = derived + 1
      key = '\0' .. due_text .. string.format(':%.0f:%04d', now, derived)
    until redis.call('HEXISTS', context, key) == 0
  end
  redis.call('ZADD', delayed, due_text, key)
  redis.call('HSET', context, key, body)
end

-- Parts: is_claim
-- Return whether a held list is a claim; the others were staged. Both names may contain the other
-- mark further on.
local function is_claim(name)
  local claim, staged = string.find(name, 'CLAIM:', 1, true), string.find(name, 'STAGED:', 1, true)
  return claim and (not staged or claim < staged)
end
-- End of parts (edit them in lua/parts)

-- Move one message, and return it.
local move = {}

-- Between two steps a waiting consumer moves the next ready message to the left end of the hand-off
-- list. So move older messages to its right end, which no consumer moves.
function move.front()
  local newest = record and 'RIGHT' or 'LEFT'
  if moved < woken then
    return redis.call('LMOVE', list, ready, newest, record and 'LEFT' or 'RIGHT')
  end
  return redis.call('LMOVE', list, handoff, newest, 'RIGHT')
end

function move.back()
  return redis.call('LMOVE', list, ready, 'RIGHT', record and 'RIGHT' or 'LEFT')
end

function move.delayed()
  local text = redis.call('LINDEX', list, '-1')
  if text then
    store_later(text)
    redis.call('LTRIM', list, '0', '-2')
  end
  return text
end

while moved < CHUNK[mode] and bytes < BODY_BUDGET do
  local body = move[mode]()
  if not body then
    break
  end
  moved = moved + 1
  bytes = bytes + #body * (mode == 'delayed' and 2 or 1)
end

local left = redis.call('LLEN', list)
if left > 0 then
  redis.call('HSET', heldrows, list, left)
else
  redis.call('ZREM', held, list)
  redis.call('HDEL', heldrows, list)
end
count_up('ended', is_claim(list) and moved or 0)
return {moved, left}
