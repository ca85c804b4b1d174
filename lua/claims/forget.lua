-- claims/forget: delete an acked claim that is still kept.
--
-- KEYS[1] {name}HELD       ZSET    held list -> µs from which its messages are the queue's
-- KEYS[2] {name}CLAIMS:<group>         HASH  state of the group
-- KEYS[3] {name}CLAIM:<group>:<batch>  LIST  the claim, its oldest message at the right end
--
-- ARGV[1] epoch            integer 1..9007199254740991     that claims/begin returned
-- ARGV[2] batch            integer 1..9007199254740991     the one of KEYS[3]
--
-- Returns {'ok', rows}: 0 if there is no such list or it is still held; {'fenced', epoch}.
-- Atomic because a held claim must not be deleted.
-- Cost: O(log held lists); UNLINK frees the memory in the background.
-- Roles: claimer, pipeline, doctor
local held, group, claim = KEYS[1], KEYS[2], KEYS[3]
local epoch, batch = tonumber(ARGV[1]), tonumber(ARGV[2])

-- include: outside

if outside(epoch, 1, 9007199254740991) or outside(batch, 1, 9007199254740991) then
  return redis.error_reply('ACKQ_ARGUMENT claims/forget: an argument is out of range')
end

local known = tonumber(redis.call('HGET', group, 'epoch') or 0)
local rows = redis.call('ZSCORE', held, claim) and 0 or redis.call('LLEN', claim)
if known ~= epoch then
  return {'fenced', known}
end
if rows > 0 then
  redis.call('UNLINK', claim)
else
  redis.call('ZREMRANGEBYRANK', held, 1, 0)
end
return {'ok', rows}
