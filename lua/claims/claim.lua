-- claims/claim: move messages into a claim: one list, one lease, one batch of a group.
--
-- include: queue_keys
-- KEYS[8] {name}DEAD       STREAM  key, body, reason, count, time, errors of dead letters
-- KEYS[9] {name}PAUSED     STRING  exists while the queue is paused
-- KEYS[10] {name}HELD      ZSET    held list -> µs from which its messages are the queue's
-- KEYS[11] {name}COUNTERS  HASH    counts, kept while a client watches
-- KEYS[12] {name}HELDROWS  HASH    held list -> messages in it
-- KEYS[13] {name}CLAIMS:<group>         HASH  state of the group
-- KEYS[14] {name}CLAIM:<group>:<batch>  LIST  the claim, its oldest message at the end of the list
--                                             that is popped: the right or the left
-- KEYS[15] {name}ERRORS    HASH    lease key -> why deliveries of it failed; see nack.lua
-- KEYS[16] {name}NOTES     HASH    notes of unique messages and of those on lists; see README.md
-- KEYS[17] {name}RECORD    HASH    the settings of the queue, see record.lua
--
-- ARGV[1] epoch            integer 1..9007199254740991         that claims/begin returned
-- ARGV[2] batch            integer 1..9007199254740991         the one of KEYS[14]
-- ARGV[3] messages         integer 1..9007199254740991         of the whole claim
-- ARGV[4] size             integer 0..9007199254740991         bytes of the whole claim; 0: any
-- ARGV[5] timeout          integer 1000000..315360000000000    µs, lease of the claim
-- ARGV[6] pop_from         right|left   the end that is popped
--
-- Returns {'ok', rows, more 0|1}: rows of the claim so far; call again with the same arguments
-- while there are more. The call may be resent after a lost reply. {'empty'}: no message is
-- available, or the queue is paused; the batch is used up. {'held', list}: return that list first
-- (held/give_back), then call again. {'taken', batch}: the batch was used before; use a higher one.
-- {'fenced', epoch}.
-- Atomic because a message must always be either ready or claimed, never both.
-- A message that an operator canceled, see pick.lua, becomes a dead letter instead.
-- Cost: O(messages), at most 1,000, of them at most 500 expired and 500 due, and 1 MiB of bodies
-- plus 16 messages; O(1) if the claim takes the whole list. If there are notes, or bodies that the
-- article's pop left in CONTEXT: at most 500, and 72 KiB decoded, since the ids are read.
-- Roles: claimer, pipeline, doctor
local ready, backup, context, handoff = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local receives, extended, delayed, dead = KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local paused, held, counters, heldrows = KEYS[9], KEYS[10], KEYS[11], KEYS[12]
local group, claim, errors, notes, record = KEYS[13], KEYS[14], KEYS[15], KEYS[16], KEYS[17]
local epoch, batch, messages = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local size, timeout, pop_from = tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6]
local from_left = pop_from == 'left'

local BODY_BUDGET = 1048576 -- bytes of bodies one call may move
local CHUNK = 1000 -- messages one call may move
local SLICE = 16 -- messages moved together: calls for a slice take half as long as LMOVE for each
local RECOVERED = 500 -- messages that came back, of each kind, in one call: they cost the most
local NOTED = 500 -- messages of a queue with notes that one call may move
local SWEPT = 100 -- notes that one call looks at, whose messages may be gone
local HEAD = 521 -- bytes in which the longest id ends; a pattern must not walk a long body

-- include: outside

if outside(epoch, 1, 9007199254740991) or outside(batch, 1, 9007199254740991)
  or outside(messages, 1, 9007199254740991) or outside(size, 0, 9007199254740991)
  or outside(timeout, 1000000, 315360000000000) or not (pop_from == 'right' or from_left) then
  return redis.error_reply('ACKQ_ARGUMENT claims/claim: an argument is out of range')
end

-- include: now
local now_text = string.format('%.0f', now)

local known = pop_from
-- include: record
if from_left and not recorded[1] then
  return refusal()
end
-- Check every type before the first write, so that an error means that nothing was done.
local pushed, handed = redis.call('LLEN', ready), redis.call('LLEN', handoff)
local leased, stored = redis.call('ZCARD', backup), redis.call('HLEN', context)
redis.call('HLEN', receives)
redis.call('HLEN', extended)
local has_errors = redis.call('HLEN', errors) > 0
local has_notes = redis.call('HLEN', notes) > 0
local later = redis.call('ZCARD', delayed)
local has_delayed, has_left = later > 0, stored > leased + later -- left by the article's pop
local reads_ids = has_notes or has_left
redis.call('XLEN', dead)
redis.call('HLEN', heldrows)
local watched = redis.call('HEXISTS', counters, 'since') == 1
local facts = redis.call('HMGET', group, 'epoch', 'last', 'acked', 'claiming', 'bytes')
local last, acked = tonumber(facts[2] or 0), tonumber(facts[3] or 0)
local rows = redis.call('LLEN', claim)
local score = tonumber(redis.call('ZSCORE', held, claim) or 0)

if tonumber(facts[1] or 0) ~= epoch then
  return {'fenced', tonumber(facts[1] or 0)}
end
if tonumber(facts[4] or 0) ~= batch or batch <= acked then
  if batch == last and rows > 0 and score > 0 then
    return {'ok', rows, 0} -- the resent call of a claim that is complete
  elseif batch == last and batch > acked and rows == 0 and facts[5] == '0' then
    return {'empty'} -- the resent call of one that found nothing
  end
  if batch <= last or batch <= acked or rows > 0 then
    return {'taken', math.max(batch, last, acked)}
  end
end
-- include: use_up
if redis.call('EXISTS', paused) == 1 then
  if rows == 0 then
    return use_up()
  end
  redis.call('HDEL', group, 'claiming')
  return {'ok', rows, 0}
end
local due = redis.call('ZRANGEBYSCORE', held, '-inf', now_text, 'LIMIT', '0', '1')
if due[1] then
  return {'held', due[1]}
end

local bytes = rows > 0 and tonumber(facts[5] or 0) or 0
local room = math.min(reads_ids and NOTED or CHUNK, messages - rows)
local taken, moved, recovered, lost, missing, canceled, cut = 0, 0, 0, 0, 0, 0, false

-- include: count_up, enough, natural_key, listed_message, is_put_back, sweep_stale

local function full()
  return cut or taken >= room or moved >= BODY_BUDGET or enough()
end

local function charge(body)
  taken = taken + 1
  moved = moved + #body
  bytes = bytes + #body
end

-- Redelivered messages are in CONTEXT by key; only the body goes into the claim.
local function take_back(zset)
  local asked = math.min(math.max(room - taken, 0), RECOVERED)
  local keys = redis.call('ZRANGEBYSCORE', zset, '-inf', now_text, 'LIMIT', '0', asked)
  for _, key in ipairs(keys) do
    if full() then
      return
    end
    local body = redis.call('HGET', context, key)
    local id, name = id_in(key)
    names.change(id, name, body and has_notes and mark(body), now_text)
    if body then
      redis.call(from_left and 'RPUSH' or 'LPUSH', claim, body)
      charge(body)
      recovered = recovered + (zset == backup and 1 or 0)
    else
      local count = tonumber(redis.call('HGET', receives, key)) or 0
      write_letter(dead, {key = key, body = '', reason = 'body missing', count = count})
      lost = lost + 1
      missing = missing + (zset == backup and 1 or 0)
    end
    redis.call('HDEL', context, key)
    redis.call('HDEL', receives, key)
    redis.call('HDEL', extended, key)
    redis.call('HDEL', errors, key)
    redis.call('ZREM', zset, key)
  end
  cut = #keys == asked -- the rest of them comes before what waits
end

-- Remove what the article left of a message. Make a dead letter of it if it was canceled, and
-- return whether that was done.
local function bury_if_canceled(body)
  local before, id = decoded, natural_key(body)
  cut = decoded > DECODE_BUDGET and before > 0
  if id and not cut and has_left and is_put_back(id, body) then
    redis.call('HDEL', context, id)
  end
  local message = id and not cut and has_notes and listed_message(id, body)
  if not message or listed.of(message.field).canceled == 0 then
    return false
  end
  bury_listed(message)
  moved, canceled = moved + message.cost, canceled + 1
  return true
end

local function take_ready(list, from)
  -- Begin with one message, since they may be large; later slices expect as large ones.
  local largest = BODY_BUDGET
  while not full() do
    local most = math.min(SLICE, room - taken, math.floor((BODY_BUDGET - moved) / largest))
    most = math.max(1, most)
    local slice = from == 'LEFT' and redis.call('LRANGE', list, 0, most - 1)
      or redis.call('LRANGE', list, -most, -1)
    if not slice[1] then
      return
    end
    local bodies, used = {}, 0
    largest = 1
    while used < #slice and not full() do
      local body = slice[from == 'LEFT' and used + 1 or #slice - used]
      local is_buried = reads_ids and bury_if_canceled(body)
      if not is_buried and not cut then
        bodies[#bodies + 1] = body
        charge(body)
      end
      used = cut and used or used + 1
      largest = math.max(largest, #body)
    end
    if #bodies > 0 then
      redis.call(from_left and 'RPUSH' or 'LPUSH', claim, unpack(bodies))
    end
    if from == 'LEFT' then
      redis.call('LTRIM', list, used, -1)
    else
      redis.call('LTRIM', list, 0, -used - 1)
    end
  end
end

-- The first write frees memory, even if only nothing: at maxmemory Redis rejects a script whose
-- first write may allocate, and a full queue could never drain.
redis.call('ZREMRANGEBYRANK', backup, 1, 0)
take_back(backup)
if not full() then
  take_back(delayed)
end
local whole = rows + taken + handed + lost == 0 and not (cut or reads_ids)
if whole and size == 0 and pushed > 0 and pushed <= messages then
  redis.call('RENAME', ready, claim)
  redis.call('PERSIST', claim)
  taken = pushed
else
  take_ready(handoff, 'RIGHT')
  take_ready(ready, from_left and 'LEFT' or 'RIGHT')
end

rows = rows + taken
local more = full() and rows < messages and not enough() or lost + canceled > 0
if rows > 0 then
  redis.call('ZADD', held, string.format('%.0f', now + timeout), claim)
  redis.call('HSET', heldrows, claim, rows)
  redis.call('HSET', group, 'last', string.format('%.0f', batch),
    'bytes', string.format('%.0f', bytes))
  if more then
    redis.call('HSET', group, 'claiming', string.format('%.0f', batch))
  else
    redis.call('HDEL', group, 'claiming')
  end
end
listed.write()
names.write()
count_up('returned', recovered)
count_up('dead:canceled', canceled)
count_up('dead:body missing', lost)
count_up('ended', missing)
if rows > 0 or more then
  return {'ok', rows, more and 1 or 0}
end
if redis.call('EXISTS', held) == 0 then -- held messages may come back to a list
  sweep_stale()
end
return use_up()
