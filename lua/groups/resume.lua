-- resume: let a stopped group go on without its dead letters, which stay where they are.
--
-- KEYS[1] {name}           LIST    ready messages: pushed on the left, taken from the right
-- KEYS[2] {name}RECORD     HASH    the settings of the queue, see record.lua
-- include: groups/keys
-- include: groups/waking_keys
--
-- ARGV[1] group            its name; of one over 512 bytes, \1 and its SHA1
--
-- Returns how many dead letters stopped the group. If they are redriven later, their messages come
-- behind those that are there then.
-- Atomic because a group must not be stopped by a dead letter that has no place in it any more.
-- Cost: O(dead letters of the group + log parked). If a consumer waits, one parked message moves.
-- Roles: operator, doctor
local ready, record, group = KEYS[1], KEYS[2], ARGV[1]
-- include: groups/waking_bound

if not group or group == '' then
  return redis.error_reply('ACKQ_ARGUMENT resume: which group?')
end

local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]

-- include: groups/known

-- include: mark, groups/slots, groups/wake

local ids = {}
for id in string.gmatch(redis.call('HGET', stopped, group) or '', '[^ ]+') do
  ids[#ids + 1] = id
end
-- The first write frees memory, so that a group can go on at maxmemory.
if redis.call('HDEL', stopped, group) == 1 then
  redis.call('HDEL', letters, unpack(ids))
  are_stopped = redis.call('HLEN', stopped) > 0
  turn(group)
  wake()
end
return #ids
