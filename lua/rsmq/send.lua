-- send: store messages, and wake waiting consumers.
--
-- include: rsmq/keys
-- KEYS[4] {ns}:{q}:Q.waiters  STRING  exists while a consumer may be waiting; ackq's own
--
-- ARGV[1] random           20 letters and digits       drawn for each call, ends the ids
-- ARGV[2] delay            integer 0..9999999          s; empty: the queue's own
-- ARGV[3] channel          string                      of realtime notices; empty: none
-- ARGV[4] bodies           1..1000 messages
--
-- Returns {'ok', id, id, ...}; {'missing'} if there is no queue; {'long', position, limit}
-- if a body is over the queue's maxsize; {'unreadable', attribute, value}. Unless ok, nothing was
-- stored.
-- Atomic because no consumer can read an id without a body.
-- Cost: O(bodies log messages).
-- Roles: producer
local zset, hash, wake, waiters = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local random, delay, channel = ARGV[1], ARGV[2], ARGV[3]
local bodies = 3

local TOKENS = 64 -- waiters woken by one call; the others look by themselves within a second
local TOKEN_LIFE = 2000 -- ms; a token that nobody took by then is of no use
local DIGITS = '0123456789abcdefghijklmnopqrstuvwxyz'
local COUNTER = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz' -- in byte order

-- include: outside, rsmq/between

local count = #ARGV - bodies
if not string.match(random or '', '^%w+$') or #random ~= 20 or count < 1 or count > 1000
  or (delay ~= '' and outside(tonumber(delay), 0, 9999999)) then
  return redis.error_reply('ACKQ_ARGUMENT send: an argument is out of range; see send.lua')
end

local attributes = redis.call('HMGET', hash, 'vt', 'delay', 'maxsize', 'totalsent')
if not (attributes[1] and attributes[2] and attributes[3]) then
  return {'missing'}
end
local seconds = between(tonumber(delay == '' and attributes[2] or delay), 0, 9999999)
local maxsize = between(tonumber(attributes[3]), -1, 9007199254740991)
if not seconds then
  return {'unreadable', 'delay', attributes[2]}
elseif not maxsize then
  return {'unreadable', 'maxsize', attributes[3]}
end

-- The original measures in UTF-16 units: characters beyond 16 bits count twice. They are never
-- more than the bytes and never less than a third of them, so few bodies need to be searched.
local function too_long(body)
  if #body <= maxsize or #body > 3 * maxsize then
    return #body > maxsize
  end
  local _, characters = string.gsub(body, '[^\128-\191]', '')
  local _, astral = string.gsub(body, '[\240-\255]', '')
  return characters + astral > maxsize
end

if maxsize >= 0 then
  for at = 1, count do
    if too_long(ARGV[bodies + at]) then
      return {'long', at, maxsize}
    end
  end
end

local clock = redis.call('TIME')
local due = string.format('%.0f',
  clock[1] * 1000 + math.floor(clock[2] / 1000) + math.floor(seconds * 1000 + 0.5))

-- An id begins with the time in µs, base 36. Two characters of a counter keep a batch in order.
local prefix, rest = '', clock[1] * 1000000 + clock[2]
while rest > 0 do
  local digit = rest % 36 + 1
  prefix = string.sub(DIGITS, digit, digit) .. prefix
  rest = math.floor(rest / 36)
end
local function id_of(at)
  local high, low = math.floor(at / 62) + 1, at % 62 + 1
  return prefix .. string.sub(COUNTER, high, high) .. string.sub(COUNTER, low, low) .. random
end

local awaited = seconds == 0 and redis.call('EXISTS', waiters) == 1
if awaited then
  redis.call('LLEN', wake)
end
if channel ~= '' then
  -- Publish before the writes, so that a user without permission gets an error and nothing is done.
  -- No client can read the notice before the script ends. One for each message, as if sent singly.
  local messages = redis.call('ZCARD', zset)
  for at = 1, count do
    redis.call('PUBLISH', channel, string.format('%.0f', messages + at))
  end
end

local total = between(tonumber(attributes[4] or 0), 0, 9007199254740991) or 0
local scores, fields = {}, {'totalsent', string.format('%.0f', math.floor(total) + count)}
local reply = {'ok'}
for at = 1, count do
  local id = id_of(at - 1)
  scores[2 * at - 1] = due
  scores[2 * at] = id
  fields[2 * at + 1] = id
  fields[2 * at + 2] = ARGV[bodies + at]
  reply[at + 1] = id
end
redis.call('ZADD', zset, unpack(scores))
redis.call('HSET', hash, unpack(fields))

if awaited then
  local tokens = {}
  for at = 1, math.min(count, TOKENS) do
    tokens[at] = '1'
  end
  redis.call('LPUSH', wake, unpack(tokens))
  redis.call('LTRIM', wake, 0, TOKENS - 1)
  redis.call('PEXPIRE', wake, TOKEN_LIFE)
end
return reply
