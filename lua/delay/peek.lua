-- delay/peek: return messages of one partition without taking them, a page at a time.
--
-- include: delay/keys
--
-- ARGV[1] state             ready|in_flight|delayed
-- ARGV[2] score             number or inf     continue after this member; empty: start
-- ARGV[3] member            that member's key; ignored without a score
-- ARGV[4] wanted            integer 1..1000     messages
--
-- Returns {score, member, key, body, count, score, ...}, four values a message, soonest first.
-- The first two name the last member looked at, for the next call; an empty score: the end.
-- count: deliveries so far. score: in flight the deadline of the lease in µs, else the ready time
-- in s. A call may return fewer than wanted, or none, before the end: it looks at 1,000 members or
-- 1 MiB, and skips leased messages when listing delayed ones.
-- Atomic because a message that moves between two places would be missed in both.
-- Cost: O(members looked at + log² stored), at most 1 MiB of keys and bodies plus one message.
-- Roles: viewer, operator
local z, h, leases, receives = KEYS[1], KEYS[2], KEYS[3], KEYS[5]
local state, score, member, wanted = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])

local BODY_BUDGET = 1048576 -- bytes, of keys too
local LOOKED = 1000 -- members that one call looks at
local SLICE = 16 -- members listed at a time, while they prove short
local SHORT = 4096 -- bytes
local LARGEST = 9007199254740991

-- include: outside

local from = tonumber(score)
if #KEYS ~= 9 or outside(wanted, 1, 1000) or (score ~= '' and not from) or from ~= from
  or (state ~= 'ready' and state ~= 'in_flight' and state ~= 'delayed') then
  return redis.error_reply('ACKQ_ARGUMENT delay/peek: an argument is out of range')
end

-- include: now
local set, now_text = z, string.format('%.6f', now / 1000000)
if state == 'in_flight' then
  set, now_text = leases, string.format('%.0f', now)
end

-- Redis orders equal scores by bytes; Lua's < uses the locale.
local function comes_after(one, other)
  for i = 1, math.min(#one, #other) do
    local left, right = string.byte(one, i), string.byte(other, i)
    if left ~= right then
      return left > right
    end
  end
  return #one > #other
end

-- Return the rank of the first member after the last one seen, even if that one is gone: so a
-- walk misses no message when messages that it has seen are taken.
local function next_rank()
  if tonumber(redis.call('ZSCORE', set, member)) == from then
    return redis.call('ZRANK', set, member) + 1
  end
  local low = redis.call('ZCOUNT', set, '-inf', string.format('(%.17g', from))
  local high = redis.call('ZCOUNT', set, '-inf', string.format('%.17g', from))
  while low < high do
    local middle = math.floor((low + high) / 2)
    if comes_after(redis.call('ZRANGE', set, middle, middle)[1], member) then
      high = middle
    else
      low = middle + 1
    end
  end
  return low
end

local past = redis.call('ZCOUNT', set, '-inf', now_text)
local rank, last = from and next_rank() or 0, past - 1
if state ~= 'ready' then
  rank, last = math.max(rank, past), redis.call('ZCARD', set) - 1
end

local reply, slice = {score, member}, 1
local found, looked, bytes = 0, 0, 0
local function full()
  return found == wanted or looked == LOOKED or bytes >= BODY_BUDGET
end

while rank <= last and not full() do
  local listed = redis.call('ZRANGE', set, rank, math.min(last, rank + slice - 1), 'WITHSCORES')
  local keys = {}
  for i = 1, #listed, 2 do
    keys[#keys + 1] = listed[i]
  end
  local counts = redis.call('HMGET', receives, unpack(keys))
  local ends = redis.call('ZMSCORE', leases, unpack(keys))
  for i, key in ipairs(keys) do
    if full() then
      break
    end
    local until_, count, body = tonumber(ends[i]), tonumber(counts[i]), nil
    if state ~= 'delayed' or not until_ or until_ <= now then
      -- Read one by one, because other clients may have stored bodies of any length.
      body = redis.call('HGET', h, key)
      -- A lease without a body: another client deleted the message.
      if not body and state ~= 'in_flight' then
        body = ''
      end
    end
    if body then
      if outside(count, 0, LARGEST) then
        count = until_ and 1 or 0
      end
      for _, value in ipairs({key, body, count, listed[2 * i]}) do
        reply[#reply + 1] = value
      end
      found = found + 1
    end
    reply[1], reply[2] = listed[2 * i], key
    rank, looked, bytes = rank + 1, looked + 1, bytes + #key + #(body or '')
  end
  slice = bytes < looked * SHORT and SLICE or 1
end
if rank > last then
  reply[1] = ''
end
return reply
