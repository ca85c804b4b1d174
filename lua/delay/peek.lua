-- delay/peek: look at messages of one partition without taking them, a page at a time.
--
-- KEYS[1] {topic}:z         ZSET    message key -> ready time, s since the epoch
-- KEYS[2] {topic}:h         HASH    message key -> body
-- KEYS[3] {topic}:leases    ZSET    message key -> lease deadline, µs since the epoch
-- KEYS[4] {topic}:extended  HASH    message key -> receipt:deadline, of extended leases
-- KEYS[5] {topic}:receives  HASH    message key -> receive count, of messages that came back
-- KEYS[6] {topic}:dead      STREAM  key, body, reason, count, time of dead letters
-- KEYS[7] {topic}:wake      LIST    at most one token, for one waiting consumer
--
-- ARGV[1] state             ready|in_flight|delayed
-- ARGV[2] place             integer 0..9007199254740991   0 begins; then what was returned
-- ARGV[3] wanted            integer 1..1000               messages looked at
--
-- Returns {place, key, body, count, score, ...}, four values a message, soonest first. place: for
-- the next call, -1: the end. count: deliveries so far. score: in flight, that of the lease, in
-- µs, else the ready time in s. Fewer than wanted may come before the end: what is leased is not
-- delayed though its ready time is to come, and one page is 8 MiB of bodies and one message over.
-- Atomic because a message on its way between two places would be seen in neither.
-- Cost: O(wanted + log stored).
local z, h, leases, receives = KEYS[1], KEYS[2], KEYS[3], KEYS[5]
local state, place, wanted = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])

local BODY_BUDGET = 8388608 -- bytes
local SLICE = 16 -- bodies read at a time

local function outside(number, low, high)
  return not (number and number >= low and number <= high and number % 1 == 0)
end

if #KEYS ~= 7 or outside(place, 0, 9007199254740991) or outside(wanted, 1, 1000)
  or (state ~= 'ready' and state ~= 'in_flight' and state ~= 'delayed') then
  return redis.error_reply('ACKQ_ARGUMENT delay/peek: an argument is out of range')
end

local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local set, now_text = z, string.format('%.6f', now / 1000000)
if state == 'in_flight' then
  set, now_text = leases, string.format('%.0f', now)
end

-- By rank, which is found at once however deep it is.
local first, last = place, redis.call('ZCARD', set) - 1
local past = redis.call('ZCOUNT', set, '-inf', now_text)
if state == 'ready' then
  last = past - 1
else
  first = math.max(place, past)
end

local reply, bytes = {0}, 0
local final = math.min(last, first + wanted - 1)
while first <= final and bytes < BODY_BUDGET do
  local listed = redis.call('ZRANGE', set, string.format('%.0f', first),
    string.format('%.0f', math.min(final, first + SLICE - 1)), 'WITHSCORES')
  local keys = {}
  for i = 1, #listed, 2 do
    keys[#keys + 1] = listed[i]
  end
  local bodies = redis.call('HMGET', h, unpack(keys))
  local counts = redis.call('HMGET', receives, unpack(keys))
  local ends = redis.call('ZMSCORE', leases, unpack(keys))
  for i, key in ipairs(keys) do
    local body, until_ = bodies[i], tonumber(ends[i] or nil)
    -- A lease without a body is one whose message others deleted.
    local seen = bytes < BODY_BUDGET
      and (state ~= 'delayed' or not until_ or until_ <= now) and (body or state ~= 'in_flight')
    if bytes < BODY_BUDGET then
      first = first + 1
    end
    if seen then
      reply[#reply + 1] = key
      reply[#reply + 1] = body or ''
      reply[#reply + 1] = tonumber(counts[i] or nil) or (until_ and 1 or 0)
      reply[#reply + 1] = listed[2 * i]
      bytes = bytes + #(body or '')
    end
  end
end
reply[1] = first <= last and first or -1
return reply
