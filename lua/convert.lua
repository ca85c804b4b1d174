-- convert: convert what is recorded of a queue of format 1 to format 2. Stop its consumers first.
--
-- KEYS[1] {name}RECORD     HASH    the settings of the queue, see record.lua
-- KEYS[2] {name}HELD       ZSET    held list -> µs; in format 1 a STRING, if there are settings:
--                                  left, or groups:<in flight>:<rate>:<on dead>:<most>:<field>, of
--                                  a shard that waits behind held and the version that opened it
-- KEYS[3] {name}HELD:LEFT  ZSET    in format 1 the held lists of a queue popped from the left
-- KEYS[4] {name}BACKUP     ZSET    lease key -> deadline, µs since the epoch
-- KEYS[5] {name}GROUPS:BUSY   HASH    group -> its messages in flight; in format 1 under an empty
--                                  name the last place in PARKED
-- KEYS[6] {name}GROUPS:SINCE  STRING  in format 1 the version that opened a shard
--
-- ARGV[1] convert          0|1     0: only look
--
-- Returns 'converted': its record is of format 1, and was converted if that was asked for; 'none':
-- it is not; 'busy': messages are leased or claimed, so nothing was done; 'unknown': the string is
-- not of ackq.
-- Atomic because a consumer must find one of the two records.
-- Cost: O(log in-flight).
-- Roles: operator
local record, held, left, backup, busy, since = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local convert = ARGV[1]

if convert ~= '0' and convert ~= '1' then
  return redis.error_reply('ACKQ_ARGUMENT convert: 0 or 1')
end

if redis.call('TYPE', held).ok ~= 'string' then
  return 'none'
end
local text = redis.call('GET', held)
local waits, limit, rate, on_dead, most, field = string.match(text,
  '^(.-)groups:(%d+):(%d+/%d+/%d+):(%a+):(%d+):(.*)$')
local opened_by = redis.call('GET', since)
local place = redis.call('HGET', busy, '')
if text ~= 'left' and (not limit or (waits ~= '' and not string.match(waits, '^held %d+ $'))) then
  return 'unknown'
end
local clock = redis.call('TIME')
local now = string.format('%.0f', clock[1] * 1000000 + clock[2])
if redis.call('ZCARD', left) + redis.call('ZCOUNT', backup, now, '+inf') > 0 then
  return 'busy'
end
if convert == '0' then
  return 'converted'
end
redis.call('DEL', held, since)
if text == 'left' then
  redis.call('HSET', record, 'format', '2', 'kind', 'left')
  return 'converted'
end
redis.call('HSET', record, 'format', '2', 'kind', 'groups', 'in_flight', limit, 'rate', rate,
  'on_dead', on_dead, 'max_in_flight', most, 'field', field)
for name, value in pairs({place = place, since = opened_by, waits = waits ~= '' and '1'}) do
  if value then
    redis.call('HSET', record, name, value)
  end
end
redis.call('HDEL', busy, '')
return 'converted'
