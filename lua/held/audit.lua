-- held/audit: check one list that is held outside the queue.
--
-- KEYS[1] {name}HELD       ZSET    held list -> µs from which its messages are the queue's
-- KEYS[2] {name}HELDROWS   HASH    held list -> messages in it
-- KEYS[3] {name}CLAIM:<group>:<batch>  LIST  the list, or one of STAGED:
--
-- ARGV[1] repair           0|1
--
-- Returns problems, with their repairs: 'held list missing' and 'held key is no list' (no longer
-- held; the key is unchanged), 'the key expires' (the expiry is removed), 'wrong row count'.
-- Atomic because list and count are changed together.
-- Cost: O(log held lists).
-- Roles: operator, doctor
local held, heldrows, list = KEYS[1], KEYS[2], KEYS[3]
local repair = ARGV[1]

if repair ~= '0' and repair ~= '1' then
  return redis.error_reply('ACKQ_ARGUMENT held/audit: repair is 0 or 1')
end

redis.call('HLEN', heldrows)
local problems = {}

local function report(problem)
  problems[#problems + 1] = problem
  return repair == '1'
end

if not redis.call('ZSCORE', held, list) then
  return problems
end
local kind = redis.call('TYPE', list).ok
if kind ~= 'list' then
  if report(kind == 'none' and 'held list missing' or 'held key is no list') then
    redis.call('ZREM', held, list)
    redis.call('HDEL', heldrows, list)
  end
  return problems
end
if redis.call('PTTL', list) >= 0 and report('the key expires') then
  redis.call('PERSIST', list)
end
local rows = redis.call('LLEN', list)
if tonumber(redis.call('HGET', heldrows, list)) ~= rows and report('wrong row count') then
  redis.call('HSET', heldrows, list, rows)
end
return problems
