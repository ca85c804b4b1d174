-- receive: return visible messages, and hide them for a while or delete them.
--
-- include: rsmq/keys
-- KEYS[4] {ns}:{q}:Q.waiters  STRING  exists while a consumer may be waiting; ackq's own
-- KEYS[5] {ns}:{q}:Q.dead     STREAM  id, body, rc, fr, time, errors of dead letters; ackq's own
-- KEYS[6] {ns}:{q}:Q.errors   HASH    message id -> why receives of it failed; see visibility.lua
--
-- ARGV[1] mode             hide|remove                 keep them under a timeout, or delete them
-- ARGV[2] wanted           integer 1..1000             messages
-- ARGV[3] vt               integer 0..9999999          s; empty: the queue's own
-- ARGV[4] wait             integer 0..60000            ms that the caller waits if there are none
-- ARGV[5] max_receives     integer 0..1000000          0: no limit
--
-- Returns {'ok', id, body, rc, fr, id, body, rc, fr, ...}; {'empty', next}: next ms until a message
-- is visible, or -1; {'again'}: this call's budget is spent, none taken; {'missing'} if
-- there is no queue; {'unreadable', attribute, value}.
-- Atomic because two consumers could read a message before it is hidden.
-- Cost: O(wanted log messages), at most 1 MiB of bodies and notes, plus one message; each byte of a
-- note counts as four.
-- Roles: consumer
local zset, hash, wake, waiters, dead = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local errors = KEYS[6]
local mode, wanted, vt = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local wait, max_receives = tonumber(ARGV[4]), tonumber(ARGV[5])

local BODY_BUDGET = 1048576 -- bytes of bodies one call may move
local DEAD_LETTER_BUDGET = 100 -- dead letters written in one call
local ASIDE = 1000 -- ms that what is no message is hidden at least
local SWEPT = 16 -- notes of failures that one call looks at, whose messages may be gone
local SLACK = 1000 -- ms that a waiter may take to come back before it is forgotten

-- include: outside, rsmq/between, keep_latest

if (mode ~= 'hide' and mode ~= 'remove') or outside(wanted, 1, 1000)
  or (vt ~= '' and outside(tonumber(vt), 0, 9999999))
  or outside(wait, 0, 60000) or outside(max_receives, 0, 1000000) then
  return redis.error_reply('ACKQ_ARGUMENT receive: an argument is out of range; see receive.lua')
end

local attributes = redis.call('HMGET', hash, 'vt', 'delay', 'maxsize', 'totalrecv')
if not (attributes[1] and attributes[2] and attributes[3]) then
  return {'missing'}
end
local seconds = mode == 'remove' and 0
  or between(tonumber(vt == '' and attributes[1] or vt), 0, 9999999)
if not seconds then
  return {'unreadable', 'vt', attributes[1]}
end

local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local now_text = string.format('%.0f', now)
local hidden = math.floor(seconds * 1000 + 0.5)
local until_text = string.format('%.0f', now + hidden)
local aside_text = string.format('%.0f', now + math.max(hidden, ASIDE))

local has_errors = redis.call('HLEN', errors) > 0

-- Remove some notes whose messages are gone: other clients delete messages without their notes.
local function forget_notes()
  for _, id in ipairs(redis.call('HRANDFIELD', errors, SWEPT)) do
    if not redis.call('ZSCORE', zset, id) then
      redis.call('HDEL', errors, id)
    end
  end
end

local ids = redis.call('ZRANGEBYSCORE', zset, '-inf', now_text, 'LIMIT', 0, wanted)
if #ids == 0 then
  local first = redis.call('ZRANGE', zset, 0, 0, 'WITHSCORES')
  if wait > 0 then
    -- No message is visible, so every token is stale. Deleting first lets a full server allow both.
    redis.call('DEL', wake)
    redis.call('SET', waiters, '', 'PX', wait + SLACK)
  end
  if has_errors then
    forget_notes()
  end
  return {'empty', first[2] and math.min(math.max(1, first[2] - now), 3600000) or -1}
end
if max_receives > 0 then
  redis.call('XLEN', dead)
end
-- The first write is a no-op that may free memory: a full server rejects a script whose first write
-- may allocate, and a full queue could never drain.
redis.call('ZREMRANGEBYRANK', zset, 1, 0)

local reply = {'ok'}
local scores, fields, gone, gone_fields = {}, {}, {}, {}
local taken, dead_lettered, bytes, full = 0, 0, 0, false

local function forget(id)
  gone[#gone + 1] = id
  gone_fields[#gone_fields + 1] = id
  gone_fields[#gone_fields + 1] = id .. ':rc'
  gone_fields[#gone_fields + 1] = id .. ':fr'
end

local function hide(id, text)
  scores[#scores + 1] = text
  scores[#scores + 1] = id
end

local function deliver(id, body, rc, fr)
  local first = between(tonumber(fr or nil), 0, 9007199254740991) or now
  if mode == 'remove' then
    forget(id)
  else
    hide(id, until_text)
    fields[#fields + 1] = id .. ':rc'
    fields[#fields + 1] = string.format('%.0f', rc)
    if first == now then
      fields[#fields + 1] = id .. ':fr'
      fields[#fields + 1] = now_text
    end
  end
  reply[#reply + 1] = id
  reply[#reply + 1] = body
  reply[#reply + 1] = rc
  reply[#reply + 1] = first
  taken = taken + 1
end

-- Return the last field of a dead letter: the failures that are noted, newest last. If the last
-- receive has none, the visibility timeout ended. Without any, nothing is known.
local function noted_failures(id, received)
  local note = has_errors and redis.call('HGET', errors, id)
  if not note then
    return {}
  end
  local found, last = {}, nil
  for line, attempt in string.gmatch(note, '((%d+):[^\n]*)') do
    found[#found + 1], last = line, tonumber(attempt)
  end
  if last ~= received then
    found[#found + 1] = string.format('%.0f:%s000:', received, now_text)
  end
  keep_latest(found)
  bytes = bytes + 4 * #note -- a pattern reads it, which takes longer than moving it
  return {'errors', table.concat(found, '\n')}
end

local function handle(id, body, rc, fr)
  if not body then
    -- The sender is between its two writes, the body is lost, or this is no RSMQ id. Neither
    -- return nor delete it.
    hide(id, aside_text)
    return
  end
  local received = math.floor(between(tonumber(rc or 0), 0, 9007199254740990) or 0)
  if max_receives > 0 and received >= max_receives then
    redis.call('XADD', dead, '*', 'id', id, 'body', body, 'rc', rc, 'fr', fr or '',
      'time', now_text, unpack(noted_failures(id, received)))
    forget(id)
    dead_lettered = dead_lettered + 1
    full = dead_lettered >= DEAD_LETTER_BUDGET
  elseif max_receives > 0 and received + 1 == max_receives and taken > 0 then
    -- A message on its last permitted receive is delivered alone, so that no other message is
    -- charged if it kills its consumer.
    full = true
    return
  else
    deliver(id, body, received + 1, fr)
    full = max_receives > 0 and received + 1 == max_receives
  end
  bytes = bytes + #body
  full = full or bytes >= BODY_BUDGET
end

local at = 1
while at <= #ids and not full do
  -- Read one by one, because a body may have any length. An id that is not RSMQ's could be the
  -- name of an attribute, so do not read it.
  local id = ids[at]
  local values = #id == 32 and string.match(id, '^[%w:]+$')
    and redis.call('HMGET', hash, id, id .. ':rc', id .. ':fr') or {}
  handle(id, values[1], values[2], values[3])
  at = at + 1
end

if #gone > 0 then
  redis.call('ZREM', zset, unpack(gone))
  redis.call('HDEL', hash, unpack(gone_fields))
  if has_errors then
    redis.call('HDEL', errors, unpack(gone))
  end
end
if #scores > 0 then
  redis.call('ZADD', zset, unpack(scores))
end
if taken == 0 then
  return {'again'}
end
local total = between(tonumber(attributes[4] or 0), 0, 9007199254740991) or 0
redis.call('HSET', hash, 'totalrecv', string.format('%.0f', math.floor(total) + taken),
  unpack(fields))
return reply
