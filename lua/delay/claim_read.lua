-- delay/claim_read: return messages of a claim without changing anything.
--
-- include: delay/keys
-- include: delay/claim_keys
--
-- ARGV[1] batch            integer 1..9007199254740991     the one of KEYS[12]
-- ARGV[2] start            integer 0..9007199254740991     place of the first message, from 0
-- ARGV[3] wanted           integer 1..300                  messages
--
-- Returns {looked at, place, ready time, key, body, place, ...}: the messages that still belong to
-- the claim, each with its place and the time since which it was ready, in s. Fewer may be looked
-- at than are wanted: pass the rest in the next call. None: the claim has no such place.
-- Atomic because a message could be deleted, and another one stored under its key, between the look
-- at its lease and the reading of its body.
-- Cost: O(messages), at most 1 MiB of bodies plus one message.
-- Roles: claimer
local z, h, leases, claims, group, claim = KEYS[1], KEYS[2], KEYS[3], KEYS[10], KEYS[11], KEYS[12]
local batch, start, wanted = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])

local BODY_BUDGET = 1048576 -- bytes of bodies one call may move

-- include: outside

if outside(batch, 1, 9007199254740991) or outside(start, 0, 9007199254740991)
  or outside(wanted, 1, 300) or #KEYS ~= 12 then
  return redis.error_reply('ACKQ_ARGUMENT delay/claim_read: an argument is out of range')
end

local facts = redis.call('HMGET', group, 'lease:' .. ARGV[1])
local base, before, renewed = string.match(facts[1] or '', '^(%d+):(%d+):(%d+)$')
base, before, renewed = tonumber(base), tonumber(before), tonumber(renewed)
if not base or tonumber(redis.call('ZSCORE', claims, claim) or 0) == 0 then
  return {0}
end

-- include: delay/is_claimed, delay/split

local times, keys = split(redis.call('LRANGE', claim, start, start + wanted - 1))
local scores = #keys > 0 and redis.call('ZMSCORE', z, unpack(keys)) or {}
local held = #keys > 0 and redis.call('ZMSCORE', leases, unpack(keys)) or {}
local reply, bytes = {0}, 0
for i, key in ipairs(keys) do
  if bytes >= BODY_BUDGET then
    break
  end
  reply[1] = i
  local body = is_claimed(start + i - 1, held[i], scores[i]) and redis.call('HGET', h, key)
  if body then
    local last = #reply
    reply[last + 1], reply[last + 2], reply[last + 3], reply[last + 4] =
      start + i - 1, times[i], key, body
    bytes = bytes + #body
  end
end
return reply
