-- record: record the settings of a queue at its first use, unless it has a record.
--
-- KEYS[1] {name}RECORD     HASH    format: 2; kind: left, if the queue is popped from the left, or
--                                  groups. Of groups also in_flight: how many messages of a group
--                                  may be in flight; rate: how many of a group may be taken, as
--                                  count/µs/burst; on_dead: whether a dead letter stops its group,
--                                  continue or stop; max_in_flight: how many messages of the queue
--                                  may be in flight; field: which field of a JSON object names the
--                                  group. A number is 0, or the field empty, if there is none.
--                                  groups/pop adds place: the last one in PARKED. Of a shard,
--                                  since and waits: see sharded/revive.lua. A queue that is popped
--                                  from the right and has neither groups nor limits has no record
-- KEYS[2] {name}HELD       ZSET    held list -> µs from which its messages are the queue's
-- KEYS[3] {name}BACKUP     ZSET    lease key -> deadline, µs since the epoch
--
-- ARGV[1] settings         pairs of a field and its value, first the format
--
-- Returns the record that the queue has now, as HGETALL; or 'busy': it has none, and consumers
-- without one hold leases or claims now, or lists are held of which groups take nothing.
-- Atomic because such a consumer must take no message between the check and the write.
-- Cost: O(log in-flight).
-- Roles: scheduler, consumer, claimer, pipeline, writer, worker, operator, doctor
local record, held, backup = KEYS[1], KEYS[2], KEYS[3]

if #ARGV < 4 or #ARGV > 20 or #ARGV % 2 > 0 or ARGV[1] ~= 'format' or ARGV[3] ~= 'kind' then
  return redis.error_reply('ACKQ_ARGUMENT record: settings begin with the format and the kind')
end

local clock = redis.call('TIME')
local now = string.format('%.0f', clock[1] * 1000000 + clock[2])
-- A lease that ended holds nobody up, nor does a list that is the queue's: the next consumer takes
-- what is there. A string in HELD is the record of format 1: this is the error.
local first = '-inf'
if ARGV[4] == 'left' then
  first = '(' .. now
end
local claimed = redis.call('ZCOUNT', held, first, '+inf')
local leased = redis.call('ZCOUNT', backup, now, '+inf')
if redis.call('HLEN', record) == 0 then
  if claimed + leased > 0 then
    return 'busy'
  end
  -- The first write frees memory, even if only nothing, so that a full queue can be drained.
  redis.call('ZREMRANGEBYRANK', backup, 1, 0)
  redis.call('HSET', record, unpack(ARGV))
end
return redis.call('HGETALL', record)
