-- audit_scan: check one bounded step of a walk over a queue's records for inconsistencies.
--
-- include: leased_keys
-- KEYS[5] {name}DELAYED    ZSET    lease key -> due time, µs since the epoch
-- KEYS[6] {name}DEAD       STREAM  key, body, reason, count, time, errors of dead letters
-- KEYS[7] {name}HELD       ZSET    held list -> µs from which its messages are the queue's
-- KEYS[8] {name}HELDROWS   HASH    held list -> messages in it
-- KEYS[9] {name}ERRORS     HASH    lease key -> why deliveries of it failed; see nack.lua
-- KEYS[10] {name}COUNTERS  HASH    counts, kept while a client watches; see watch.lua
-- KEYS[11] {name}          LIST    ready messages: pushed on the left, taken from the right
-- KEYS[12] {name}HANDOFF   LIST    front of the ready list: messages handed to a blocked consumer
-- KEYS[13] {name}NOTES     HASH    notes of unique messages and of those on lists; see README.md
-- With groups: KEYS[14] {name}GROUPS:PARKED ZSET messages moved aside, see groups/pop.lua
--
-- ARGV[1] walked           backup|delayed|context|receives|extended|heldrows|errors|notes
-- ARGV[2] cursor           of ZSCAN or HSCAN; 0 begins
-- ARGV[3] repair           0|1
--
-- Returns {next cursor, entries seen, problem, key, problem, key, ...}; the cursor 0 ends. With
-- their repairs: 'body missing' (leased or delayed; to the dead letters. With groups: due, so that
-- groups/pop does it, which may stop the group), 'orphan body' (made ready), 'leased and delayed'
-- (the lease stays), 'deadline out of range' (ready now; the note of a unique push is no longer
-- believed), 'stale count', 'stale extension', 'stale row count', 'stale failure' and 'stale note'
-- (deleted).
-- Atomic because a record that moves between two looks would seem lost.
-- Cost: O(log in-flight) for each of about 100 entries. For context before Redis 7.4: for each of
-- up to 1,000 entries; if there are more, for about one entry with its body.
-- Roles: operator, doctor
local backup, context, receives = KEYS[1], KEYS[2], KEYS[3]
local extended, delayed, dead = KEYS[4], KEYS[5], KEYS[6]
local held, heldrows, errors, counters = KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local ready, handoff, notes, parked = KEYS[11], KEYS[12], KEYS[13], KEYS[14]
local walked, cursor, repair = ARGV[1], ARGV[2], ARGV[3] == '1'

local MAX_LEASE = 43200065535 -- µs: 12 h and the jitter
local LARGEST = 9007199254740991
local LONGEST_NOTE = 315360000000000 -- µs for which the note of a unique push is believed, at most
local WHOLE = 1000 -- keys of CONTEXT that one call may read at once

local walks = {
  backup = {'ZSCAN', backup, 100}, delayed = {'ZSCAN', delayed, 100},
  context = {'HSCAN', context, 1}, receives = {'HSCAN', receives, 100},
  extended = {'HSCAN', extended, 100}, heldrows = {'HSCAN', heldrows, 100},
  errors = {'HSCAN', errors, 10}, notes = {'HSCAN', notes, 100},
}
local walk = walks[walked]
if not walk or not tonumber(cursor) or (ARGV[3] ~= '0' and ARGV[3] ~= '1') then
  return redis.error_reply('ACKQ_ARGUMENT audit_scan: no such walk, or a bad cursor or repair')
end

-- Check every type before the first write, so that an error means that nothing was repaired.
redis.call('ZCARD', backup)
redis.call('HLEN', context)
redis.call('HLEN', receives)
redis.call('HLEN', extended)
redis.call('ZCARD', delayed)
redis.call('XLEN', dead)
redis.call('HLEN', heldrows)
redis.call('HLEN', errors)
local has_notes = redis.call('HLEN', notes) > 0
local are_listed = redis.call('ZCARD', held) + redis.call('LLEN', ready)
  + redis.call('LLEN', handoff) + (parked and redis.call('ZCARD', parked) or 0) > 0
local watched = redis.call('HEXISTS', counters, 'since') == 1

-- include: now, count_up, names, listed, write_letter

local now_text = string.format('%.0f', now)
-- Redis 7.4 and later can scan without the bodies. Earlier, HKEYS reads none, but returns all keys.
local page, stride
if walked == 'context' and (redis.REDIS_VERSION_NUM or 0) >= 0x070400 then
  page, stride = redis.call('HSCAN', context, cursor, 'COUNT', 100, 'NOVALUES'), 1
elseif walked == 'context' and cursor == '0' and redis.call('HLEN', context) <= WHOLE then
  page, stride = {'0', redis.call('HKEYS', context)}, 1
else
  page, stride = redis.call(walk[1], walk[2], cursor, 'COUNT', walk[3]), 2
end
local reply = {page[1], #page[2] / stride}

local function report(problem, key)
  reply[#reply + 1] = problem
  reply[#reply + 1] = key
  return repair
end

local function bury(zset, key)
  if parked then
    redis.call('ZADD', zset, now_text, key)
    return
  end
  local count = tonumber(redis.call('HGET', receives, key)) or 0
  write_letter(dead, {key = key, body = '', reason = 'body missing', count = count})
  redis.call('ZREM', zset, key)
  redis.call('HDEL', receives, key)
  redis.call('HDEL', extended, key)
  redis.call('HDEL', errors, key)
  count_up('dead:body missing', 1)
  count_up('ended', zset == backup and 1 or 0)
end

local check = {}

function check.backup(key, score)
  if redis.call('HEXISTS', context, key) == 0 then
    if report('body missing', key) then
      bury(backup, key)
    end
    return
  end
  if redis.call('ZSCORE', delayed, key) and report('leased and delayed', key) then
    redis.call('ZREM', delayed, key)
  end
  score = tonumber(score)
  if not (score >= 0 and score <= now + MAX_LEASE)
    and report('deadline out of range', key) then
    redis.call('ZADD', backup, now_text, key)
  end
end

function check.delayed(key, score)
  if redis.call('HEXISTS', context, key) == 0 then
    if report('body missing', key) then
      bury(delayed, key)
    end
    return
  end
  score = tonumber(score)
  if not (score >= 0 and score <= LARGEST) and report('deadline out of range', key) then
    redis.call('ZADD', delayed, now_text, key)
  end
end

function check.context(key)
  if not redis.call('ZSCORE', backup, key) and not redis.call('ZSCORE', delayed, key)
    and report('orphan body', key) then
    redis.call('ZADD', delayed, now_text, key)
  end
end

function check.receives(key)
  if redis.call('HEXISTS', context, key) == 0 and not redis.call('ZSCORE', backup, key)
    and not redis.call('ZSCORE', delayed, key) and report('stale count', key) then
    redis.call('HDEL', receives, key)
  end
end

local names, listed = open_names(), open_listed()

-- Check what an id has: names of messages that are gone, or that are believed for too long.
local function check_names(id, field)
  local problem
  for name, till in pairs(names.of(id)) do
    local is_listed = till ~= ''
    if is_listed and not are_listed
      or not is_listed and redis.call('HEXISTS', context, names.key(id, name)) == 0 then
      problem = 'stale note'
      names.change(id, name)
    elseif is_listed and tonumber(till) > now + LONGEST_NOTE then
      problem = problem or 'deadline out of range'
      names.change(id, name, name, '0')
    end
  end
  if problem and report(problem, field) then
    names.write()
  end
end

function check.notes(field)
  local id = string.match(field, '^:(.*)$')
  if id then
    check_names(id, field)
  elseif field ~= '' then
    local note = listed.of(field)
    if (not are_listed or note.count + note.canceled == 0) and report('stale note', field) then
      redis.call('HDEL', notes, field)
    end
  elseif not are_listed and repair then
    redis.call('HDEL', notes, field) -- the others of that time are deleted, too
  end
end

-- A note of a canceled delivery is no problem; it is deleted when its lease would have ended.
function check.extended(key, note)
  local ends = tonumber(string.match(note, ':canceled:(%d+)$') or nil)
  if redis.call('ZSCORE', backup, key) or (ends and ends > now) then
    return
  end
  if (ends and repair) or (not ends and report('stale extension', key)) then
    redis.call('HDEL', extended, key)
  end
end

-- The message may be on a list, where its count is tied to its body.
function check.errors(key, note)
  local field = string.match(note, '^[^\n]*') .. ':' .. key
  if redis.call('HEXISTS', receives, key) == 0 and redis.call('HEXISTS', notes, field) == 0
    and report('stale failure', key) then
    redis.call('HDEL', errors, key)
  end
end

function check.heldrows(key)
  if not redis.call('ZSCORE', held, key) and report('stale row count', key) then
    redis.call('HDEL', heldrows, key)
  end
end

for i = 1, #page[2], stride do
  check[walked](page[2][i], page[2][i + 1])
end
return reply
