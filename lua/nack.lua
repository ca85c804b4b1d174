-- nack: return messages for redelivery after a delay, or move them to the dead letters.
--
-- KEYS[1] {name}           LIST    ready messages: pushed on the left, taken from the right
-- KEYS[2] {name}BACKUP     ZSET    lease key -> deadline, µs since the epoch
-- KEYS[3] {name}CONTEXT    HASH    lease key -> the message as it was pushed
-- KEYS[4] {name}RECEIVES   HASH    lease key -> receive count of redelivered messages
-- KEYS[5] {name}EXTENDED   HASH    lease key -> receipt:deadline of extended leases
-- KEYS[6] {name}DELAYED    ZSET    lease key -> due time, µs since the epoch
-- KEYS[7] {name}DEAD       STREAM  key, body, reason, count, time of dead letters
--
-- ARGV[1] charge           0|1     0: this delivery does not count (a release)
-- ARGV[2] max_receives     integer 0..1000000  0: no limit
-- ARGV[3] returned         groups of: receipt, delay µs 0..9007199254740991 or -1, size 1..4000,
--                          then size lease keys; -1 pushes to the back of the ready list
--
-- Messages with the same delay are redelivered in the given order.
-- Returns {returned, position, position, ...}: how many were returned, then the positions,
-- from 1, of keys leased to another consumer. Negative: the key is in DELAYED or in neither set.
-- Either this nack was resent after a lost reply, or another consumer settled the message; only the
-- caller knows which.
-- A final 0 and a position: pass the keys from there on in the next call.
-- Atomic because a message must always be either leased or due, never both.
-- Cost: O(returned log in-flight): at most 100 messages; of those that become dead letters or go to
-- the list, at most 1 MiB of bodies plus one message. No other body is read.
local ready, backup, context, receives = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local extended, delayed, dead = KEYS[5], KEYS[6], KEYS[7]
local charge, max_receives, at = tonumber(ARGV[1]), tonumber(ARGV[2]), 3

local BODY_BUDGET = 1048576 -- bytes of bodies one call may move
local MOST = 100 -- messages one call may give back

local function outside(number, low, high)
  return not (number and number >= low and number <= high and number % 1 == 0)
end

if outside(charge, 0, 1) or outside(max_receives, 0, 1000000) then
  return redis.error_reply('ACKQ_ARGUMENT nack: charge is 0 or 1, max_receives 0..1000000')
end

redis.call('LLEN', ready)
redis.call('HLEN', context)
redis.call('HLEN', receives)
redis.call('ZCARD', delayed)
redis.call('XLEN', dead)
local has_extended = redis.call('HLEN', extended) > 0
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]

-- A receipt is valid while it equals the score, or while EXTENDED ties it to that score.
local function holds(receipt, key, score)
  if not score then
    return false
  end
  return tonumber(score) == tonumber(receipt) or (has_extended
    and redis.call('HGET', extended, key) == receipt .. ':' .. string.format('%.0f', score))
end

-- What ties the count of a message on the list to its body: another message may have the same id.
local function mark(body)
  return #body .. ':' .. redis.sha1hex(string.sub(body, 1, 512) .. string.sub(body, -512))
end

local returned, reply, position = {}, {0}, 0
while at <= #ARGV do
  local receipt, delay, size = ARGV[at], tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
  if outside(tonumber(receipt), 0, 9007199254740991) or outside(size, 1, 4000)
    or outside(delay, -1, 9007199254740991) or at + 2 + size > #ARGV or #ARGV > 4100 then
    return redis.error_reply('ACKQ_ARGUMENT nack: a group is a receipt, a delay, a size and keys')
  end
  local scores = redis.call('ZMSCORE', backup, unpack(ARGV, at + 3, at + 2 + size))
  for i = 1, size do
    local key = ARGV[at + 2 + i]
    position = position + 1
    if holds(receipt, key, scores[i]) then
      returned[#returned + 1] = {key, delay, position}
    else
      reply[#reply + 1] = scores[i] and position or -position
    end
  end
  at = at + 3 + size
end

-- The first write frees memory, so that messages can be returned at maxmemory.
local most, bytes = math.min(#returned, MOST), 0
for i, entry in ipairs(returned) do
  local key, delay = entry[1], entry[2]
  if i > MOST or bytes >= BODY_BUDGET then
    -- Leave the rest, and the results for it, to the next call.
    while #reply > 1 and math.abs(reply[#reply]) >= entry[3] do
      reply[#reply] = nil
    end
    reply[#reply + 1] = 0
    reply[#reply + 1] = entry[3]
    break
  end
  if redis.call('ZREM', backup, key) == 1 then
    local count = tonumber(redis.call('HGET', receives, key)) or 1
    local dies = charge == 1 and max_receives > 0 and count >= max_receives
    local body = redis.call('HEXISTS', context, key) == 1
    if body and (dies or delay < 0) then
      body = redis.call('HGET', context, key)
      bytes = bytes + #body
    end
    reply[1] = reply[1] + 1
    redis.call('HDEL', extended, key)
    if not body or dies then
      redis.call('XADD', dead, '*', 'key', key, 'body', body or '', 'reason',
        body and 'max receives' or 'body missing', 'count', count,
        'time', string.format('%.0f', now))
      redis.call('HDEL', context, key)
      redis.call('HDEL', receives, key)
    else
      count = count - 1 + charge
      if delay < 0 then
        redis.call('LPUSH', ready, body)
        redis.call('HDEL', context, key)
      else
        -- A microsecond apart, since Redis sorts equal scores by key. Without a delay they end at
        -- the present, so that all are due. With a delay they begin at its end: none is early.
        local due = (delay == 0 and now - most or now + delay - 1) + i
        redis.call('ZADD', delayed, string.format('%.0f', math.min(due, 9007199254740991)), key)
      end
      -- A message without an id gets a new derived key at each delivery from the list: no count.
      if count == 0 or (delay < 0 and string.byte(key) == 0) then
        redis.call('HDEL', receives, key)
      else
        redis.call('HSET', receives, key,
          string.format('%.0f', count) .. (delay < 0 and ':' .. mark(body) or ''))
      end
    end
  end
end
return reply
