-- permit: return how many messages may be taken now under the workers' shared rate limit.
--
-- KEYS[1] {name}RATELIMIT  STRING  when the allowance is full again, µs since the epoch; expires
--
-- ARGV[1] wanted           integer 0..1000             messages
-- ARGV[2] returned         integer 0..1000             messages permitted before and not taken
-- ARGV[3] count            integer 1..1000000000       messages
-- ARGV[4] period           integer 1..86400000000      µs in which so many may be taken
-- ARGV[5] burst            integer 1..1000000000       messages allowed at once after idleness
--
-- Returns {permitted, wait}: wait µs until one more is permitted, 0 if any was.
-- Atomic because two workers must not get the same allowance.
-- Cost: O(1). In any span of t µs no more than burst + t * count / period are permitted.
-- Roles: worker
local key = KEYS[1]
local wanted, returned = tonumber(ARGV[1]), tonumber(ARGV[2])
local count, period, burst = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])

-- include: outside

if outside(wanted, 0, 1000) or outside(returned, 0, 1000) or outside(count, 1, 1000000000)
  or outside(period, 1, 86400000000) or outside(burst, 1, 1000000000) then
  return redis.error_reply('ACKQ_ARGUMENT permit: an argument is out of range; see permit.lua')
end

-- include: now
local each = period / count
local limit = now + burst * each
-- Never beyond the limit, or a clock that was set back would stop all workers for the step.
local whole = math.min(limit, math.max(now, tonumber(redis.call('GET', key) or now)))
whole = math.max(now, whole - returned * each)

local permitted = math.min(wanted, math.max(0, math.floor((limit - whole) / each + 0.000001)))
whole = whole + permitted * each
if whole > now then
  redis.call('SET', key, string.format('%.0f', math.ceil(whole)), 'PX',
    string.format('%.0f', math.ceil((whole - now) / 1000) + 1))
else
  redis.call('DEL', key)
end
if permitted > 0 or wanted == 0 then
  return {permitted, 0}
end
return {0, math.max(1, math.ceil(whole + each - limit))}
