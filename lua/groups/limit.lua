-- limit: pause a group, give it limits of its own, or let it go on without its dead letters, which
-- stay where they are.
--
-- KEYS[1] {name}           LIST    ready messages: pushed on the left, taken from the right
-- KEYS[2] {name}RECORD     HASH    the settings of the queue, see record.lua
-- include: groups/keys
-- include: groups/waking_keys
--
-- ARGV[1] group            its name; of one over 512 bytes, \1 and its SHA1
-- ARGV[2] pause            integer -1..9007199254740991  µs: pause it for as long; the highest:
--                                  until somebody ends it. A pause that ends later stays. 0: none;
--                                  -1: end its pause, and let no dead letter stop it
-- ARGV[3] in_flight        integer 0..1000  its own; 0: that of the record. May be absent, with the
--                                  next one: its limits stay
-- ARGV[4] rate             its own: count/µs/burst; 0/0/0: that of the record
--
-- Returns how many dead letters no longer stop the group, plus 1 if a pause was ended. If they are
-- redriven later, their messages come behind those that are there then.
-- Atomic because a turn of the group must fit what is known of it.
-- Cost: O(dead letters of the group + log parked). If a consumer waits, one parked message moves.
-- Roles: consumer, worker, operator, doctor
local ready, record, group = KEYS[1], KEYS[2], ARGV[1]
local pause, in_flight, rate = tonumber(ARGV[2]), tonumber(ARGV[3] or 0), ARGV[4]
-- include: groups/waking_bound

local ENDLESS = 9007199254740991 -- µs: the end of a pause until somebody ends it

-- include: outside

if not group or group == '' or outside(pause, -1, ENDLESS) or outside(in_flight, 0, 1000)
  or (#ARGV ~= 2 and not string.find(rate or '', '^%d+/%d+/%d+$')) then
  return redis.error_reply('ACKQ_ARGUMENT limit: a group, a pause, in_flight and a rate')
end

-- include: now, groups/known

-- include: mark, groups/slots, groups/wake

-- The first write frees memory, so that a group can go on at maxmemory.
redis.call('ZREMRANGEBYRANK', parked, 1, 0)
local ids, ended = {}, 0
if pause > 0 then
  redis.call('ZADD', pauses, 'GT', string.format('%.0f', math.min(ENDLESS, now + pause)), group)
elseif pause < 0 then
  for id in string.gmatch(redis.call('HGET', stopped, group) or '', '[^ ]+') do
    ids[#ids + 1] = id
  end
  ended = redis.call('ZREM', pauses, group)
  if redis.call('HDEL', stopped, group) == 1 then
    redis.call('HDEL', letters, unpack(ids))
    are_stopped = redis.call('HLEN', stopped) > 0
  end
end
if rate and in_flight == 0 and rate == '0/0/0' then
  redis.call('HDEL', limits, group)
  redis.call('ZREM', rates, rules.each and '' or group)
elseif rate and redis.call('HEXISTS', record, 'field') == 1 then
  redis.call('HSET', record, 'limited', '1') -- for the audit
  redis.call('HSET', limits, group, string.format('%.0f ', in_flight) .. rate)
end
are_apart = true
turn(group)
wake()
return #ids + ended
