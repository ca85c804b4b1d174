-- overview/lists: read the figures of several list queues, and keep counting in them.
--
-- KEYS in groups of eleven, one group a queue.
-- include: counted_keys
-- KEYS[6] {name}PAUSED     STRING  exists while the queue is paused
-- KEYS[7] {name}HELD       ZSET    held list -> µs from which its messages are the queue's
-- KEYS[8] {name}HELDROWS   HASH    held list -> messages in it
-- KEYS[9] {name}COUNTERS   HASH    counts, kept while a client watches; expires
-- KEYS[10] {name}WORKERS:SEEN   ZSET    worker -> when its entry ends, µs since the epoch
-- KEYS[11] {name}RECORD    HASH    the settings of the queue: one with a record is not read here
--
-- ARGV[1] window           integer 0..604800000  ms; as in watch.lua. 0: do not count
-- ARGV[2] member           text    a body with a time has a JSON member of this name ...
-- ARGV[3] other            text    ... or of this one
--
-- Returns {now, figures, figures, ...}: now in µs since the epoch; then, for each of the first
-- queues, its figures, or an error text if they cannot be read. Read queues that are missing with
-- another call. The figures:
--   14 numbers as in stats.lua
--   since, listed 0|1, body   as in oldest.lua
--   workers                   whose entries have not ended; -1: the user may not know
--   live, held, {field, value, ...}   as in watch.lua; the last is empty without a window
-- Atomic for each queue, because a message that moves between two counts would be counted twice or
-- not at all.
-- Cost: O(queues (log in-flight + log delayed) + held lists + fields): 32 KiB of bodies and 100
-- held lists, plus those of one queue. Redis reports no element lengths, so a body is read whatever
-- its length.
-- Roles: none
local window, member, other = tonumber(ARGV[1]), ARGV[2], ARGV[3]

local SLOTS = 11
local MAX_IN_CALL = 100 -- held lists
local READ = 32768 -- bytes of bodies
local MAX_BODY = 65536 -- bytes

-- include: outside

if #KEYS == 0 or #KEYS % SLOTS ~= 0 or not other
  or outside(window, 0, 604800000) then
  return redis.error_reply('ACKQ_ARGUMENT overview/lists: an argument is out of range')
end

-- include: now
local now_text = string.format('%.0f', now)
local walked, bytes = 0, 0

-- include: has, is_claim

-- Return the size of a set of times, how many have passed, and the first one.
local function tally(zset)
  local first = tonumber(redis.call('ZRANGE', zset, 0, 0, 'WITHSCORES')[2])
  if not first then
    return 0, 0
  end
  local passed = first <= now and redis.call('ZCOUNT', zset, '-inf', now_text) or 0
  return redis.call('ZCARD', zset), passed, first
end

local function until_time(time)
  return time and tonumber(time) - now or 0
end

-- Return what counting has found, or nothing without a window.
local function counts(counters, live, in_flight)
  if window == 0 then
    return {}
  end
  -- The first write frees nothing but counts as freeing, so that a full server can be watched.
  redis.call('HDEL', counters, '')
  if redis.call('HSETNX', counters, 'since', now_text) == 1 then
    redis.call('HSET', counters, 'live', live, 'held', in_flight)
  end
  if redis.call('PTTL', counters) < window then
    redis.call('PEXPIRE', counters, string.format('%.0f', window))
  end
  return redis.call('HGETALL', counters)
end

local function figures(first)
  if redis.call('HMGET', KEYS[first + 10], 'format')[1] then
    return 'ACKQ_RECORD the queue has a record'
  end
  local listed, handed = redis.call('LLEN', KEYS[first]), redis.call('LLEN', KEYS[first + 2])
  local leased, expired, deadline = tally(KEYS[first + 1])
  local delayed, due, due_time = tally(KEYS[first + 3])
  local dead = redis.call('XLEN', KEYS[first + 4])
  local paused = redis.call('EXISTS', KEYS[first + 5])

  local since = math.min(expired > 0 and deadline or math.huge, due > 0 and due_time or math.huge)
  local claimed, returned, later, rows_in_claims, untimed = 0, 0, 0, 0, false
  redis.call('HLEN', KEYS[first + 7])
  local lists = redis.call('ZRANGE', KEYS[first + 6], 0, -1, 'WITHSCORES')
  for i = 1, #lists, 2 do
    local rows = tonumber(redis.call('HGET', KEYS[first + 7], lists[i]) or 0)
    local from = tonumber(lists[i + 1])
    if is_claim(lists[i]) then
      rows_in_claims = rows_in_claims + rows
    end
    if from > now then
      claimed = claimed + rows
    elseif string.sub(lists[i], -8) == ':delayed' then
      later = later + rows
    else
      returned = returned + rows
      if rows > 0 and from > 0 then
        since = math.min(since, from)
      end
      untimed = untimed or rows > 0 and from <= 0
    end
  end
  walked = walked + #lists / 2

  local body = ''
  if listed + handed > 0 then
    body = redis.call('LINDEX', handed > 0 and KEYS[first + 2] or KEYS[first], -1)
    bytes = bytes + #body
    if #body > MAX_BODY or not (has(body, member) or has(body, other)) then
      body = ''
    end
  end
  local is_listed = listed + handed > 0 or since == math.huge and untimed

  local workers = redis.pcall('ZCOUNT', KEYS[first + 9], '(' .. now_text, '+inf')
  local live = listed + handed + leased + delayed + claimed + returned + later
  return {
    listed, handed, leased, expired, delayed, due, dead, paused,
    until_time(deadline), until_time(due_time), claimed, returned, later, until_time(lists[2]),
    since == math.huge and 0 or since, is_listed and 1 or 0, body,
    type(workers) == 'number' and workers or -1,
    live, leased + rows_in_claims, counts(KEYS[first + 8], live, leased + rows_in_claims),
  }
end

local reply = {now}
for first = 1, #KEYS, SLOTS do
  if walked >= MAX_IN_CALL or bytes >= READ then
    break
  end
  local is_read, found = pcall(figures, first)
  reply[#reply + 1] = is_read and found or type(found) == 'table' and found.err or tostring(found)
end
return reply
