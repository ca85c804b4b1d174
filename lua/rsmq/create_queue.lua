-- create_queue: make a queue and list it.
--
-- KEYS[1] {ns}:{q}:Q       HASH    the queue's attributes, and its messages
-- KEYS[2] {ns}:QUEUES      SET     names of the queues
--
-- ARGV[1] name             string                      of the queue
-- ARGV[2] vt               integer 0..9999999          s, visibility timeout
-- ARGV[3] delay            integer 0..9999999          s, before a message can be received
-- ARGV[4] maxsize          integer 1024..65565 or -1   UTF-16 units of a message; -1: no limit
--
-- Returns 'ok' or 'exists'. An existing queue keeps its attributes, and is listed if it was not.
-- Atomic because no client finds a queue that is not in the set.
-- Cost: O(1).
-- Roles: operator
local hash, queues = KEYS[1], KEYS[2]
local name, vt, delay, maxsize = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])

-- include: outside

if name == '' or outside(vt, 0, 9999999) or outside(delay, 0, 9999999)
  or (outside(maxsize, 1024, 65565) and maxsize ~= -1) then
  return redis.error_reply('ACKQ_ARGUMENT create_queue: an argument is out of range')
end

local exists = redis.call('HEXISTS', hash, 'vt') == 1
local seconds = redis.call('TIME')[1]
redis.call('SADD', queues, name)
if exists then
  return 'exists'
end
local attributes = {vt = ARGV[2], delay = ARGV[3], maxsize = ARGV[4],
  created = seconds, modified = seconds}
for field, value in pairs(attributes) do
  redis.call('HSETNX', hash, field, value)
end
return 'ok'
