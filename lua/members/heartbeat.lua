-- members/heartbeat: join a consumer group or stay in it, and detect changes of its members.
--
-- KEYS[1] {group}:members   ZSET    session -> its end, µs since the epoch
-- KEYS[2] {group}:group     HASH    generation: counts changes of the membership; assigned: the
--                                   generation that {group}:owners was written for; shares;
--                                   clock: time of the last heartbeat, µs since the epoch;
--                                   assigning: until when a member computes an assignment, µs
-- KEYS[3] {group}:owners    HASH    share -> session
--
-- ARGV[1] session           text, drawn by the member
-- ARGV[2] timeout           integer 1..3600000000   µs that the session lasts without a heartbeat
-- ARGV[3] shares            integer 1..1024         number of partitions
-- ARGV[4] joins             0|1     1: join; 0: a missing session was fenced
-- ARGV[5] known             integer 0..9007199254740991   generation that the member knows
--
-- Returns {'ok', generation, assigned, wait}: wait µs until the next other session ends, or -1.
-- If assigned = generation and known is another one: followed by members, {own share, ...}. If
-- assigned is another generation, one member in 50 ms gets {session, ...}, {share, session, ...}
-- besides, for members/assign, without the sessions beyond the 10,000 that end last.
-- Returns {'fenced'}: the session ended, and others may have its shares (its partitions);
-- {'shares', n}: the group has n.
-- Atomic because a session must not be renewed and ended at once.
-- Cost: O(log members); O(shares) after a change; O(members) if shares have to be assigned.
-- Roles: consumer, worker
local members, group, owners = KEYS[1], KEYS[2], KEYS[3]
local session, timeout, shares = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local joins, known = ARGV[4], tonumber(ARGV[5])

-- include: outside

if not session or #session < 1 or #session > 512 or outside(timeout, 1, 3600000000)
  or outside(shares, 1, 1024) or (joins ~= '0' and joins ~= '1')
  or outside(known, 0, 9007199254740991) then
  return redis.error_reply('ACKQ_ARGUMENT members/heartbeat: an argument is out of range')
end

redis.call('HLEN', owners)
local common = tonumber(redis.call('HGET', group, 'shares') or shares)
-- include: now
-- How far the clock was set back since the last heartbeat. End all sessions earlier by as
-- much, or the partitions of a dead member would go unserved for the step.
local step = math.max(0, tonumber(redis.call('HGET', group, 'clock') or 0) - now)
local over = string.format('%.0f', now + step)
local mine = redis.call('ZSCORE', members, session)
if not mine and joins == '0' then
  return {'fenced'}
end
local others = redis.call('ZCOUNT', members, '(' .. over, '+inf')
  - (mine and tonumber(mine) > now + step and 1 or 0)
if common ~= shares and others > 0 then
  return {'shares', common}
end

-- The first write frees memory, even if only nothing: at maxmemory a member must be able to stay. A
-- caller's own session that ran out unnoticed continues; no other member has its partitions.
redis.call('ZREMRANGEBYRANK', members, 1, 0)
-- Join before other sessions end, so that the key is never empty: while its slot moves, Redis
-- refuses a script the key that it has emptied.
redis.call('ZADD', members, string.format('%.0f', now + timeout), session)
local changed = not mine
for _, ended in ipairs(redis.call('ZRANGEBYSCORE', members, '-inf', over, 'LIMIT', 0, 1000)) do
  if ended ~= session then
    redis.call('ZREM', members, ended)
    changed = true
  end
end
if common ~= shares then
  changed = true
  redis.call('DEL', owners)
end
if step > 0 then
  local back = '-' .. string.format('%.0f', step)
  for _, other in ipairs(redis.call('ZRANGE', members, 0, -1)) do
    if other ~= session then
      redis.call('ZINCRBY', members, back, other)
    end
  end
end
redis.call('HSET', group, 'clock', string.format('%.0f', now))
if changed then
  redis.call('HSET', group, 'shares', string.format('%.0f', shares))
  redis.call('HINCRBY', group, 'generation', 1)
end

local generation = tonumber(redis.call('HGET', group, 'generation') or 0)
local assigned = tonumber(redis.call('HGET', group, 'assigned') or 0)
local wait = -1
local nearest = redis.call('ZRANGE', members, 0, 1, 'WITHSCORES')
for i = 1, #nearest, 2 do
  if nearest[i] ~= session and wait < 0 then
    wait = math.max(1, tonumber(nearest[i + 1]) - now)
  end
end
-- Otherwise all members would compute it, again and again while others join.
local assigning = tonumber(redis.call('HGET', group, 'assigning') or 0) - now
if known == generation and assigned == generation
  or assigned ~= generation and assigning > 0 and assigning <= 50000 then
  return {'ok', generation, assigned, wait}
end
local owned = common == shares and redis.call('HGETALL', owners) or {}
if assigned ~= generation then
  redis.call('HSET', group, 'assigning', string.format('%.0f', now + 50000))
  return {'ok', generation, assigned, wait, redis.call('ZREVRANGE', members, 0, 9999), owned}
end
local own = {}
for i = 2, #owned, 2 do
  if owned[i] == session then
    own[#own + 1] = owned[i - 1]
  end
end
return {'ok', generation, assigned, wait, redis.call('ZCARD', members), own}
