-- sharded/look: what a consumer has to know of a shard before it takes or waits.
--
-- KEYS[1] {shard}          LIST    ready messages
-- KEYS[2] {shard}HANDOFF   LIST    front of the ready list
-- KEYS[3] {shard}BACKUP    ZSET    lease key -> deadline, µs since the epoch
-- KEYS[4] {shard}DELAYED   ZSET    lease key -> due time, µs since the epoch
-- KEYS[5] {shard}HELD      ZSET    held list -> µs from which its messages are the queue's
-- KEYS[6] {shard}PAUSED    STRING  exists while the shard is paused
-- With groups: KEYS[7] {shard}GROUPS:TURNS   ZSET    group whose turn it is -> since, µs
-- With groups: KEYS[8] {shard}WAITERS:LOOKS  STRING  see pop.lua; written if nothing is ready
--
-- Returns {ready, paused 0|1, µs until a lease ends or a message or held list is due; -1: none}.
-- ready counts what pop would take, and each held list that belongs to the queue as one, as each
-- group whose turn it is.
-- Atomic because a message that moves between two counts would be counted twice or not at all.
-- Cost: O(log in-flight + log delayed), less than that of `stats`.
-- Roles: consumer, worker
local ready, handoff, backup, delayed = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local held, paused, turns, looks = KEYS[5], KEYS[6], KEYS[7], KEYS[8]

local LOOKS_KEPT = 10000 -- ms

local count = redis.call('LLEN', ready) + redis.call('LLEN', handoff)
local now, wait = nil, -1
local function read_clock()
  if not now then
    local clock = redis.call('TIME')
    now = clock[1] * 1000000 + clock[2]
  end
end
for _, zset in ipairs({backup, delayed, held, turns}) do
  local first = redis.call('ZRANGE', zset, 0, 0, 'WITHSCORES')[2]
  if first then
    read_clock()
    if tonumber(first) <= now then
      count = count + redis.call('ZCOUNT', zset, '-inf', string.format('%.0f', now))
    elseif wait < 0 or tonumber(first) - now < wait then
      wait = tonumber(first) - now
    end
  end
end
if count == 0 and looks then
  -- The caller is going to wait. This shows ack that it may wake a consumer.
  read_clock()
  pcall(redis.set_repl, redis.REPL_NONE)
  redis.pcall('SET', looks, string.format('%.0f:1.000', now), 'PX', LOOKS_KEPT)
  pcall(redis.set_repl, redis.REPL_ALL)
end
return {count, redis.call('EXISTS', paused), wait}
