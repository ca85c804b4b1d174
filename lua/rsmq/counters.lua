-- counters: read what was counted of a queue's messages since it was created.
--
-- KEYS[1] {ns}:{q}         ZSET    message id -> when it is visible next, ms since the epoch
-- KEYS[2] {ns}:{q}:Q       HASH    the queue's attributes, and its messages
-- KEYS[3] {ns}:{q}:Q.dead     STREAM  id, body, rc, fr, time, errors of dead letters; ackq's own
--
-- Takes no arguments.
--
-- Returns {now, created, totalsent, totalrecv, messages, letters, died}: now in µs since the epoch;
-- the next three as they are stored or nil; how many messages and dead letters there are; how many
-- ever died, or -1 if the server does not count them, which it does from Redis 7 on. 'missing' if
-- there is no queue.
-- Atomic because a message that moves between two counts would be counted twice or not at all.
-- Cost: O(1).
-- Roles: viewer, operator
local zset, hash, dead = KEYS[1], KEYS[2], KEYS[3]

local stored = redis.call('HMGET', hash, 'vt', 'created', 'totalsent', 'totalrecv')
if not stored[1] then
  return 'missing'
end
local clock = redis.call('TIME')
local letters, died = redis.call('XLEN', dead), 0
if redis.call('EXISTS', dead) == 1 then
  local facts = redis.call('XINFO', 'STREAM', dead)
  died = -1
  for i = 1, #facts, 2 do
    if facts[i] == 'entries-added' then
      died = facts[i + 1]
    end
  end
end
return {clock[1] * 1000000 + clock[2], stored[2], stored[3], stored[4],
  redis.call('ZCARD', zset), letters, died}
