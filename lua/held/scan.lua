-- held/scan: return one bounded step of a walk over the lists held outside the queue.
--
-- KEYS[1] {name}HELD       ZSET    held list -> µs from which its messages are the queue's
-- KEYS[2] {name}HELDROWS   HASH    held list -> messages in it
-- KEYS[3] {name}RECORD     HASH    the settings of the queue, see record.lua
--
-- ARGV[1] cursor           of ZSCAN; 0 begins
-- ARGV[2] known            right|left|groups   what the caller knows of the record
--
-- Returns {next cursor, now, list, score, rows, list, score, rows, ...}; the cursor 0 ends. now
-- and score are µs since the epoch; score 0: the list is on its way into the queue. A list
-- may be returned twice.
-- Atomic because the rows and the score belong together.
-- Cost: O(1) for each of about 100 lists.
-- Roles: worker, scheduler, claimer, pipeline, monitor, watcher, viewer, operator, doctor
local held, heldrows, record = KEYS[1], KEYS[2], KEYS[3]
local cursor, known = ARGV[1], ARGV[2]

if not tonumber(cursor) or not known then
  return redis.error_reply('ACKQ_ARGUMENT held/scan: a cursor is a number')
end

-- include: record

redis.call('HLEN', heldrows)
local clock = redis.call('TIME')
local page = redis.call('ZSCAN', held, cursor, 'COUNT', 100)
local reply = {page[1], clock[1] * 1000000 + clock[2]}
for i = 1, #page[2], 2 do
  reply[#reply + 1] = page[2][i]
  reply[#reply + 1] = string.format('%.0f', page[2][i + 1])
  reply[#reply + 1] = redis.call('HGET', heldrows, page[2][i]) or '0'
end
return reply
