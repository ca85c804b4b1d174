-- watch: read the counts since counting began, and keep counting.
--
-- KEYS[1] {name}COUNTERS   HASH    counts, kept while a client watches; expires
-- KEYS[2] {name}           LIST    ready messages: pushed on the left, taken from the right
-- KEYS[3] {name}BACKUP     ZSET    lease key -> deadline, µs since the epoch
-- KEYS[4] {name}HANDOFF    LIST    front of the ready list: messages handed to a blocked consumer
-- KEYS[5] {name}DELAYED    ZSET    lease key -> due time, µs since the epoch
-- KEYS[6] {name}HELD       ZSET    held list -> µs from which its messages are the queue's
-- KEYS[7] {name}HELDROWS   HASH    held list -> messages in it
-- KEYS[8] {name}RECORD     HASH    the settings of the queue, see record.lua
-- With groups: KEYS[9] {name}GROUPS:PARKED ZSET messages moved aside, see groups/pop.lua
--
-- ARGV[1] window           integer 1..604800000    ms; the counts expire without another call. A
--                          shorter window does not shorten a longer one
-- ARGV[2] pop_from         right|left   the end that is popped; default right
--
-- Returns {now, live, held, field, value, ...}: now in µs since the epoch, how many messages are in
-- the queue now, without dead letters, how many of them are leased or claimed, and the fields:
--   since           µs since the epoch
--   live, held      the same numbers when counting began
--   acked, nacked, released; returned: redelivered after their lease ended
--   ended           deliveries that ended in another way: by a purge or a drain, with a claim that
--                   was returned, or by the death of a message whose lease had ended
--   lease:<s>       a sample of what was taken with a lease of <s> whole seconds
--   dead:<reason>   max receives, too large, body missing, rejected, canceled
--   rows:<reason>   dead letters that a pipeline wrote, of rows whose claim it acked or that were
--                   never in this queue: nothing follows from them
--   redriven; dropped: purged; dropped:dead: dead letters deleted
-- A field is absent while it is 0. What is not counted follows, since each delivery ends once:
--   pushed = live now - live at first + acked + dead + dropped - redriven
--   taken = held now - held at first + acked + nacked + released + dead:rejected + returned + ended
-- After a pause longer than the window, counting restarts with a new since. The release before this
-- one writes taken and timeout:<s> for each message, and neither live nor held.
-- Atomic because counts without an expiry would be kept and updated for ever, and the numbers of
-- messages must be those of the same instant as the counts.
-- Cost: O(fields + held lists), at most 100 fields.
-- Roles: consumer, worker, watcher, viewer, operator, doctor
local counters, ready, backup, handoff = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local delayed, held, heldrows, record, parked = KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local window, pop_from = tonumber(ARGV[1]), ARGV[2] or 'right'

-- include: outside

if outside(window, 1, 604800000) then
  return redis.error_reply('ACKQ_ARGUMENT watch: window is 1..604800000 ms')
end

local known = parked and 'groups' or pop_from
-- include: record, is_claim, rows_of

local in_flight = redis.call('ZCARD', backup)
local live = redis.call('LLEN', ready) + redis.call('LLEN', handoff) + in_flight
  + redis.call('ZCARD', delayed) + (parked and redis.call('ZCARD', parked) or 0)
redis.call('HLEN', heldrows)
local rows_held = all_rows()
live, in_flight = live + rows_held, in_flight + rows_held
-- The others are claims: a staged list belongs to the queue at once.
local due = redis.call('ZRANGEBYSCORE', held, '-inf', '0')
for i, rows in ipairs(rows_of(due)) do
  in_flight = in_flight - (is_claim(due[i]) and 0 or rows)
end
-- include: now
-- The first write frees nothing but counts as freeing, so that a full server can be watched.
redis.call('HDEL', counters, '')
if redis.call('HSETNX', counters, 'since', string.format('%.0f', now)) == 1 then
  redis.call('HSET', counters, 'live', live, 'held', in_flight)
end
if redis.call('PTTL', counters) < window then
  redis.call('PEXPIRE', counters, string.format('%.0f', window))
end
local reply = redis.call('HGETALL', counters)
table.insert(reply, 1, in_flight)
table.insert(reply, 1, live)
table.insert(reply, 1, now)
return reply
