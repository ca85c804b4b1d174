-- tick: push the message of a schedule's tick once, whatever the number of schedulers.
--
-- KEYS[1] {name}           LIST    ready messages: pushed on the left
-- KEYS[2] {name}TICKS      HASH    schedule -> latest tick, µs; schedule:missed -> how many
-- KEYS[3] {name}WORKERS:SCHEDULES  HASH  schedule -> version of 16 bytes, definition as JSON
-- KEYS[4] {name}BACKUP     ZSET    lease key -> deadline, µs since the epoch
-- KEYS[5] {name}HANDOFF    LIST    front of the ready list: messages handed to a blocked consumer
-- KEYS[6] {name}NOTES      HASH    notes of unique messages, see push_unique.lua
-- KEYS[7] {name}DELAYED    ZSET    lease key -> due time, µs since the epoch
-- KEYS[8] {name}HELD       ZSET    held list -> µs from which its messages are the queue's
-- KEYS[9] {name}RECORD     HASH    the settings of the queue, see record.lua
-- With groups: KEYS[10] {name}GROUPS:PARKED ZSET messages moved aside, see groups/pop.lua
--
-- ARGV[1] schedule         text    name of the schedule
-- ARGV[2] tick             integer 0..9007199254740991  µs since the epoch; 0: only look
-- ARGV[3] previous         integer 0..9007199254740991  latest tick that the caller knows; 0: none
-- ARGV[4] missed           integer 0..1000000000        ticks between the two, skipped and counted
-- ARGV[5] message          bytes
-- ARGV[6] pop_from         right|left  the end that is popped: push onto the other; default right
-- ARGV[7] version          0 or 16 bytes  of a stored schedule; default none: a worker's own
-- ARGV[8] unique           done|taken  push only if push_unique would; default: always
-- ARGV[9] message_id       1..512 bytes, the id that pop finds in the message; for unique
-- ARGV[10] searched        what a search has found, as in push_unique; default: nothing
--
-- Returns {status, latest, now, missed}: 'pushed'; 'early' if the tick is in the future; 'known' if
-- it was pushed before, or ``previous`` was not the latest tick, or ``tick`` is 0; 'changed' if the
-- stored schedule has another version or was removed, so nothing was pushed; 'queued' if the tick
-- counts as pushed because another message of the id is in the queue; 'search' if only a search
-- can tell, see push_unique; then the latest tick (0: none yet), the server's time in µs, and the
-- total number missed. Behind 'search' the notes.
-- Atomic because the push and its record must never be seen apart.
-- Cost: O(1).
-- Roles: worker
local ready, ticks, schedules, backup = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local handoff, notes, delayed, held, record = KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local parked = KEYS[10]
local schedule, tick, previous = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local missed, message, pop_from = tonumber(ARGV[4]), ARGV[5], ARGV[6] or 'right'
local version, unique = ARGV[7] or '', ARGV[8] or ''
local message_id, searched = ARGV[9] or '', ARGV[10] or ''

local BELIEVED = 86400000000 -- µs for which the note of a unique message is believed

-- include: outside

if outside(tick, 0, 9007199254740991) or outside(previous, 0, 9007199254740991)
  or outside(missed, 0, 1000000000) or not message
  or (pop_from ~= 'right' and pop_from ~= 'left') or (#version ~= 0 and #version ~= 16)
  or (unique ~= '' and unique ~= 'done' and unique ~= 'taken')
  or (unique ~= '' and (#message_id < 1 or #message_id > 512
    or string.byte(message_id) == 0)) then
  return redis.error_reply('ACKQ_ARGUMENT tick: an argument is out of range; see tick.lua')
end

local known = parked and 'groups' or pop_from
-- include: record

redis.call('LLEN', ready)
-- include: now
local ticked = redis.call('HMGET', ticks, schedule, schedule .. ':missed')
local latest, counted = tonumber(ticked[1] or 0), tonumber(ticked[2] or 0)

local has_notes = unique ~= '' and redis.call('HLEN', notes) > 0

-- include: unique_state

if version ~= '' then
  local stored = redis.call('HGET', schedules, schedule)
  if not stored or string.sub(stored, 1, 16) ~= version then
    return {'changed', latest, now, counted}
  end
end
if tick > now then
  return {'early', latest, now, counted}
end
if tick <= latest or latest ~= previous then
  return {'known', latest, now, counted}
end
local status = 'pushed'
local expiry = string.format('%.0f', now + BELIEVED)
if unique ~= '' then
  local state, words = state_of(message_id, string.match(searched, '^%-(.*)$'))
  if state == 'search' and searched ~= '+' .. words then
    return {'search', latest, now, counted, words}
  elseif state == 'search' then
    believe(message_id, expiry)
  end
  status = (state == 'free' or (state == 'leased' and unique == 'taken')) and 'pushed' or 'queued'
end
if status == 'pushed' then
  redis.call(pop_from == 'left' and 'RPUSH' or 'LPUSH', ready, message)
end
redis.call('HSET', ticks, schedule, string.format('%.0f', tick))
if missed > 0 then
  counted = redis.call('HINCRBY', ticks, schedule .. ':missed', string.format('%.0f', missed))
end
-- The note comes last: without it a message may be pushed twice, but no id is blocked.
if status == 'pushed' and unique ~= '' then
  names.change(message_id, nil, mark(message), expiry)
end
names.write()
return {status, tick, now, counted}
