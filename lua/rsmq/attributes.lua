-- attributes: read the attributes and counts of a queue, after changing some of them.
--
-- KEYS[1] {ns}:{q}         ZSET    message id -> when it is visible next, ms since the epoch
-- KEYS[2] {ns}:{q}:Q       HASH    the queue's attributes, and its messages
--
-- ARGV[1] changes          0..3 pairs of vt|delay|maxsize and an integer, ranges as in create_queue
--
-- Returns {vt, delay, maxsize, totalrecv, totalsent, created, modified, messages, hidden}, the
-- first seven as they are stored or nil; 'missing' if there is no queue.
-- Atomic because the counts belong to one instant.
-- Cost: O(log messages).
-- Roles: viewer, operator
local zset, hash = KEYS[1], KEYS[2]
local changes = #ARGV

local limits = {vt = {0, 9999999}, delay = {0, 9999999}, maxsize = {1024, 65565}}
for at = 1, changes, 2 do
  local limit, value = limits[ARGV[at]], tonumber(ARGV[at + 1])
  local allowed = limit and value and value % 1 == 0
    and ((value >= limit[1] and value <= limit[2]) or (ARGV[at] == 'maxsize' and value == -1))
  if not allowed or changes > 6 then
    return redis.error_reply('ACKQ_ARGUMENT attributes: a change is out of range')
  end
end

local required = redis.call('HMGET', hash, 'vt', 'delay', 'maxsize')
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local messages = redis.call('ZCARD', zset)
local hidden = redis.call('ZCOUNT', zset, string.format('(%.0f', now), '+inf')
if not required[1] or (changes > 0 and not (required[2] and required[3])) then
  return 'missing'
end
if changes > 0 then
  redis.call('HSET', hash, 'modified', clock[1], unpack(ARGV))
end
local reply = redis.call('HMGET', hash, 'vt', 'delay', 'maxsize', 'totalrecv', 'totalsent',
  'created', 'modified')
reply[8] = messages
reply[9] = hidden
return reply
