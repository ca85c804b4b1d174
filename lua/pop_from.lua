-- pop_from: record that a queue is popped from the left, or delete the record of an empty queue.
--
-- KEYS[1] {name}HELD       STRING  'left', the record; a queue popped from the right has none, but
--                                  may have a ZSET of held lists there
-- KEYS[2] {name}HELD:LEFT  ZSET    held lists of a queue popped from the left
-- KEYS[3] {name}BACKUP     ZSET    lease key -> deadline, µs since the epoch
-- KEYS[4] {name}DELAYED    ZSET    lease key -> due time, µs since the epoch
--
-- ARGV[1] verb             record|forget
--
-- Returns 'left': the queue is popped from the left, and so recorded. After record, 'right': it has
-- no record, and a consumer that pops from the right holds leases or claims now. After forget,
-- 'none': there is no record (any more); it stays as long as messages are leased, delayed or held.
-- Atomic because a consumer of the other end must take no message between look and record.
-- Cost: O(log in-flight).
-- Roles: scheduler, consumer, claimer, pipeline, writer, worker, operator, doctor
local record, held, backup, delayed = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local verb = ARGV[1]

if verb ~= 'record' and verb ~= 'forget' then
  return redis.error_reply('ACKQ_ARGUMENT pop_from: verb is record or forget')
end

local used = redis.call('ZCARD', held) + redis.call('ZCARD', delayed)
local clock = redis.call('TIME')
local now = string.format('%.0f', clock[1] * 1000000 + clock[2])
-- A lease that ended holds nobody up: the next consumer of either end takes its message.
local leased = redis.call('ZCOUNT', backup, now, '+inf')
local kind = redis.call('TYPE', record).ok
if kind == 'string' and redis.call('GET', record) == 'left' then
  if verb == 'record' or used + redis.call('ZCARD', backup) > 0 then
    return 'left'
  end
  redis.call('DEL', record)
  return 'none'
end
-- A string that is no record belongs to another program: this is the error.
local claimed = redis.call('ZCARD', record)
if verb == 'forget' then
  return 'none'
end
if claimed + leased > 0 then
  return 'right'
end
-- The first write frees memory, even if only nothing, so that a full queue can be drained.
redis.call('ZREMRANGEBYRANK', backup, 1, 0)
redis.call('SET', record, 'left')
return 'left'
