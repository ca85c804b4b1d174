-- stats: count the messages of a queue by where they are, at one instant.
--
-- KEYS[1] {name}           LIST    ready messages: pushed on the left, taken from the right
-- KEYS[2] {name}BACKUP     ZSET    lease key -> deadline, µs since the epoch
-- KEYS[3] {name}HANDOFF    LIST    front of the ready list: what a blocked consumer was handed
-- KEYS[4] {name}DELAYED    ZSET    lease key -> due time, µs since the epoch
-- KEYS[5] {name}DEAD       STREAM  key, body, reason, count, time of dead letters
-- KEYS[6] {name}PAUSED     STRING  while it exists nothing is taken
--
-- Returns {listed, handed over, leased, expired, delayed, due, dead, paused 0|1,
-- µs until the next lease ends (negative: since it ended), µs until the next message is due}.
-- The last two are 0 where there is none; expired counts in leased, due counts in delayed.
-- Atomic because a message on its way between two counts would be seen twice, or not at all.
-- Cost: O(log in-flight + log delayed).
local ready, backup, handoff, delayed = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local dead, paused = KEYS[5], KEYS[6]

local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local now_text = string.format('%.0f', now)

local function until_first(zset)
  local first = redis.call('ZRANGE', zset, 0, 0, 'WITHSCORES')
  return first[2] and tonumber(first[2]) - now or 0
end

return {
  redis.call('LLEN', ready),
  redis.call('LLEN', handoff),
  redis.call('ZCARD', backup),
  redis.call('ZCOUNT', backup, '-inf', now_text),
  redis.call('ZCARD', delayed),
  redis.call('ZCOUNT', delayed, '-inf', now_text),
  redis.call('XLEN', dead),
  redis.call('EXISTS', paused),
  until_first(backup),
  until_first(delayed),
}
