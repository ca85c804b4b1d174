-- members/assign: record the owner of each partition, once for each generation.
--
-- KEYS[1] {group}:members   ZSET    session -> its end, µs since the epoch
-- KEYS[2] {group}:group     HASH    generation, assigned, shares, assigning
-- KEYS[3] {group}:owners    HASH    share -> session
--
-- ARGV[1] generation        integer 1..9007199254740991   that the assignment was computed for
-- ARGV[2] owned             1..1024 pairs of share and session
--
-- Returns 1, or 0 if the membership changed since or another member was first.
-- Atomic because assignments of two generations must not be mixed.
-- Cost: O(shares).
-- Roles: consumer, worker
local group, owners = KEYS[2], KEYS[3]
local generation = tonumber(ARGV[1])

-- include: outside

if outside(generation, 1, 9007199254740991) or #ARGV < 3 or #ARGV > 2049 or #ARGV % 2 ~= 1 then
  return redis.error_reply('ACKQ_ARGUMENT members/assign: a generation, then 1 to 1024 pairs')
end

redis.call('HLEN', owners)
if tonumber(redis.call('HGET', group, 'generation')) ~= generation
  or tonumber(redis.call('HGET', group, 'assigned')) == generation then
  return 0
end
local assigned = {}
for i = 2, #ARGV, 2 do
  assigned[ARGV[i]] = true
end
-- The first write frees memory. The owners are replaced without emptying their key: while its slot
-- moves, Redis would refuse to write to it again.
redis.call('HDEL', group, 'assigning')
redis.call('HSET', owners, unpack(ARGV, 2))
for _, share in ipairs(redis.call('HKEYS', owners)) do
  if not assigned[share] then
    redis.call('HDEL', owners, share)
  end
end
redis.call('HSET', group, 'assigned', string.format('%.0f', generation))
return 1
