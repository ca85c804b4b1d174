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
-- KEYS[9] {name}RECORD     HASH    the settings of the queue, see record.lua
--
-- ARGV[1] mode             front|back|delayed  target: before all ready messages, behind them, or
--                          DELAYED, for messages of the form <due time µs>:<message>
-- ARGV[2] pop_from         right|left  the end that is popped
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
local mode, pop_from = ARGV[1], ARGV[2]
local from_left, known = pop_from == 'left', pop_from

local CHUNK = {front = 1000, back = 1000, delayed = 500} -- messages one call may move
local BODY_BUDGET = 1048576 -- bytes of bodies one call may move; delayed ones cost double
local WOKEN = 100 -- messages that go to the ready list, where they wake those who wait

if not CHUNK[mode] or not (pop_from == 'right' or from_left) then
  return redis.error_reply('ACKQ_ARGUMENT held/give_back: no such mode, or no such end')
end

-- include: record

redis.call('LLEN', ready)
local woken = redis.call('LLEN', handoff) == 0 and WOKEN or 0
redis.call('HLEN', context)
redis.call('ZCARD', delayed)
redis.call('HLEN', heldrows)
local watched = redis.call('HEXISTS', counters, 'since') == 1
-- include: now
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

local moved, bytes, latest = 0, 0, {}

-- include: score_of, time_of, behind, count_up, leading_id, free_key

-- Read the id as pop does, but only from ackq's own messages; others get a derived key.
local function store_later(text)
  local due, first = string.match(text, '^(%d+):()')
  due = tonumber(due or now)
  latest[due] = latest[due] and latest[due] + 1
    or behind(delayed, due, score_of(due))
  local body = string.sub(text, first or 1)
  local due_text = score_of(math.min(latest[due], 9007199254740991))
  local key = free_key(leading_id(body), due_text .. string.format(':%.0f', now))
  redis.call('ZADD', delayed, due_text, key)
  redis.call('HSET', context, key, body)
end

-- include: is_claim

-- Move one message, and return it.
local move = {}

-- Between two steps a waiting consumer moves the next ready message to the left end of the hand-off
-- list. So move older messages to its right end, which no consumer moves.
function move.front()
  local newest = from_left and 'RIGHT' or 'LEFT'
  if moved < woken then
    return redis.call('LMOVE', list, ready, newest, from_left and 'LEFT' or 'RIGHT')
  end
  return redis.call('LMOVE', list, handoff, newest, 'RIGHT')
end

function move.back()
  return redis.call('LMOVE', list, ready, 'RIGHT', from_left and 'RIGHT' or 'LEFT')
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
