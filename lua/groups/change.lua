-- change: change the limits of a queue with groups while consumers work.
--
-- KEYS[1] {name}           LIST    ready messages: pushed on the left, taken from the right
-- KEYS[2] {name}RECORD     HASH    the settings of the queue, see record.lua
-- KEYS[3] {name}BACKUP     ZSET    lease key -> deadline, µs since the epoch
-- include: groups/keys
-- include: groups/waking_keys
--
-- ARGV[1] settings         pairs of a field and its value: in_flight, rate, on_dead, max_in_flight.
--                          None: only let consumers look again that wait
--
-- Returns the record that the queue has now, as HGETALL. With its field "changed", a client uses
-- the limits of the record instead of other ones. 'busy', and nothing was done: on_dead cannot
-- become "stop" while messages of groups are in flight, which have no places to return to.
-- After in_flight is raised, groups/audit gives the turns that this permits.
-- Atomic because a pop must use one record, and consumers that wait must not miss the change.
-- Cost: O(1). If a consumer waits, one parked message moves.
-- Roles: operator, doctor
local ready, record, backup = KEYS[1], KEYS[2], KEYS[3]
-- include: groups/waking_bound

local FIELDS = {in_flight = true, rate = true, on_dead = true, max_in_flight = true}

local will_stop = false
for i = 1, #ARGV, 2 do
  if not FIELDS[ARGV[i]] or #ARGV % 2 > 0 then
    return redis.error_reply('ACKQ_ARGUMENT change: pairs of a field and its value')
  end
  will_stop = will_stop or ARGV[i + 1] == 'stop'
end

redis.call('ZCARD', backup)
-- include: now, groups/known

-- include: mark, groups/slots, groups/wake, groups/admit

if will_stop and not rules.stops and redis.call('HLEN', flight) > 0 then
  return 'busy'
end
-- The first write frees memory, so that limits can be changed at maxmemory.
redis.call('ZREMRANGEBYRANK', parked, 1, 0)
if redis.call('HEXISTS', record, 'field') == 0 then
  return {}
end
if #ARGV > 0 then
  redis.call('HSET', record, 'changed', '1', unpack(ARGV))
end
rules = rules_of(redis.call('HMGET', record, 'in_flight', 'rate', 'on_dead', 'max_in_flight'))
if not (rules.each or are_apart) then
  redis.call('UNLINK', rates)
end
wake()
admit()
return redis.call('HGETALL', record)
