-- claims/ack: mark the messages of a claim as done, and keep them readable for a while.
--
-- KEYS[1] {name}HELD       ZSET    held list -> µs from which its messages are the queue's
-- KEYS[2] {name}HELDROWS   HASH    held list -> messages in it
-- KEYS[3] {name}COUNTERS   HASH    counts, kept while a client watches
-- KEYS[4] {name}CLAIMS:<group>         HASH  state of the group
-- KEYS[5] {name}CLAIM:<group>:<batch>  LIST  the claim, its oldest message at the right end
--
-- ARGV[1] epoch            integer 1..9007199254740991     that claims/begin returned
-- ARGV[2] batch            integer 0..9007199254740991     acked, with all before it
-- ARGV[3] keep             integer 0..315360000000         ms that the list stays; 0: delete it
--
-- Returns {'ok', rows}: 0 if it was acked before or is being returned; {'fenced', epoch}.
-- Atomic because an acked claim must expire, and a held one must not.
-- Cost: O(log held lists), whatever the length of the claim.
-- Roles: claimer, pipeline, doctor
local held, heldrows, counters, group, claim = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local epoch, batch, keep = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])

-- include: outside

if outside(epoch, 1, 9007199254740991) or outside(batch, 0, 9007199254740991)
  or outside(keep, 0, 315360000000) then
  return redis.error_reply('ACKQ_ARGUMENT claims/ack: an argument is out of range')
end

redis.call('HLEN', heldrows)
local watched = redis.call('HEXISTS', counters, 'since') == 1

-- include: count_up

local facts = redis.call('HMGET', group, 'epoch', 'acked')
local score = tonumber(redis.call('ZSCORE', held, claim) or 0)
local rows = score > 0 and redis.call('LLEN', claim) or 0
if tonumber(facts[1] or 0) ~= epoch then
  return {'fenced', tonumber(facts[1] or 0)}
end
if score > 0 then
  redis.call('ZREM', held, claim)
  redis.call('HDEL', heldrows, claim)
  if keep > 0 then
    redis.call('PEXPIRE', claim, string.format('%.0f', keep))
  else
    redis.call('UNLINK', claim)
  end
  count_up('acked', rows)
else
  redis.call('ZREMRANGEBYRANK', held, 1, 0)
end
if batch > tonumber(facts[2] or 0) then
  redis.call('HSET', group, 'acked', string.format('%.0f', batch))
end
return {'ok', rows}
