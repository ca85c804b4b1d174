-- cancel: move chosen messages to the dead letters, with the reason "canceled": delayed ones, and
-- leased ones whose leases have ended or, if that is asked for, run.
--
-- KEYS[1] {name}CONTEXT    HASH    lease key -> the message as it was pushed
-- KEYS[2] {name}RECEIVES   HASH    lease key -> receive count of redelivered messages
-- KEYS[3] {name}DELAYED    ZSET    lease key -> due time, µs since the epoch
-- KEYS[4] {name}DEAD       STREAM  key, body, reason, count, time, errors of dead letters
-- KEYS[5] {name}ERRORS     HASH    lease key -> why deliveries of it failed; see nack.lua
-- KEYS[6] {name}COUNTERS   HASH    counts, kept while a client watches; see watch.lua
-- KEYS[7] {name}BACKUP     ZSET    lease key -> deadline, µs since the epoch
-- KEYS[8] {name}EXTENDED   HASH    lease key -> receipt:deadline of extended leases
-- With groups: KEYS[9] {name} LIST ready messages
-- With groups: KEYS[10] {name}HANDOFF LIST front of the ready list
-- With groups: KEYS[11] {name}HELD STRING the record, see groups/record.lua
-- With groups: KEYS[12] {name}WAITERS:LOOKS STRING exists if a consumer has waited lately
-- With groups: KEYS[13] {name}GROUPS:BUSY HASH see groups/pop.lua
-- With groups: KEYS[14] {name}GROUPS:PARKED ZSET messages moved aside
-- With groups: KEYS[15] {name}GROUPS:TURNS ZSET
-- With groups: KEYS[16] {name}GROUPS:FLIGHT HASH
-- With groups: KEYS[17] {name}GROUPS:RUNS ZSET
-- With groups: KEYS[18] {name}GROUPS:WOKEN STRING
-- With groups: KEYS[19] {name}GROUPS:RATES ZSET
-- With groups: KEYS[20] {name}GROUPS:ROOM LIST
-- With groups: KEYS[21] {name}GROUPS:STOPPED HASH group -> ids of dead letters
-- With groups: KEYS[22] {name}GROUPS:LETTERS HASH id of a dead letter -> place, group
--
-- ARGV[1] running          0|1     1: also messages whose leases run. The lease ends, so the
--                          holder's settles are refused, and its next extend reports the cancel
-- ARGV[2] chosen           1..1000 pairs of: the due time that the message must have, an integer
--                          0..9007199254740991 µs, or empty for any, and for a lease; lease key
--
-- Returns {canceled, looked at}; pass the other pairs in the next call. A message that is not there
-- or has another due time is left alone; one that is due, but not taken yet, is canceled.
-- Atomic because a message must always be in one place, and a lease must not end unrecorded.
-- Cost: O(chosen log in-flight): at most 100 messages and 1 MiB of bodies and notes, plus one; each
-- byte of a note counts as four.
-- Roles: operator, doctor
local context, receives, delayed = KEYS[1], KEYS[2], KEYS[3]
local dead, errors, counters, backup, extended = KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local ready, handoff, record, looks, busy = KEYS[9], KEYS[10], KEYS[11], KEYS[12], KEYS[13]
local parked, turns, flight = KEYS[14], KEYS[15], KEYS[16]
local runs, woken, rates, room = KEYS[17], KEYS[18], KEYS[19], KEYS[20]
local stopped, letters = KEYS[21], KEYS[22]
local running = ARGV[1]

local BODY_BUDGET = 1048576 -- bytes of bodies and notes one call may move
local MAX_IN_CALL = 100 -- messages one call may move
local SWEPT = 100 -- notes that one call looks at, whose leases may have ended

-- Parts: outside
local function outside(number, low, high)
  return not (number and number >= low and number <= high and number % 1 == 0)
end
-- End of parts (edit them in lua/parts)

if running ~= '0' and running ~= '1' then
  return redis.error_reply('ACKQ_ARGUMENT cancel: running is 0 or 1')
end
if #ARGV < 3 or #ARGV > 2001 or #ARGV % 2 == 0 then
  return redis.error_reply('ACKQ_ARGUMENT cancel: 1..1000 pairs of a due time and a key')
end
for at = 2, #ARGV, 2 do
  if ARGV[at] ~= '' and outside(tonumber(ARGV[at]), 0, 9007199254740991) then
    return redis.error_reply('ACKQ_ARGUMENT cancel: a due time is 0..9007199254740991 or empty')
  end
end

redis.call('HLEN', context)
redis.call('HLEN', receives)
redis.call('ZCARD', delayed)
redis.call('XLEN', dead)
redis.call('ZCARD', backup)
local has_extended = redis.call('HLEN', extended) > 0
local has_errors = redis.call('HLEN', errors) > 0
local watched = redis.call('HEXISTS', counters, 'since') == 1
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]

-- Parts: groups/rules, groups/known
-- Return what a record says, or nil if it is of another kind: see groups/record.lua.
local function rules_of(text)
  local limit, count, period, burst, on_dead, most, field = string.match(text or '',
    '^groups:(%d+):(%d+)/(%d+)/(%d+):(%a+):(%d+):(.*)$')
  return limit and {
    limit = tonumber(limit), burst = tonumber(burst), stops = on_dead == 'stop',
    each = tonumber(count) > 0 and period / count or nil, most = tonumber(most), field = field,
  }
end

-- Of a queue with groups, read every type before the first write.
local rules, are_parked, woken_note, are_stopped = nil, false, '', false
if record then
  rules = rules_of(redis.call('GET', record)) or {limit = 1, most = 0}
  redis.call('LLEN', ready)
  redis.call('LLEN', handoff)
  redis.call('HLEN', busy)
  are_parked = redis.call('ZCARD', parked) > 0
  redis.call('ZCARD', turns)
  redis.call('HLEN', flight)
  redis.call('ZCARD', runs)
  woken_note = redis.call('GET', woken) or ''
  redis.call('ZCARD', rates)
  redis.call('LLEN', room)
  are_stopped = redis.call('HLEN', stopped) > 0
end
-- End of parts (edit them in lua/parts)
if record then
  redis.call('HLEN', letters)
end

-- Parts: count_up, mark, failures, is_unique
-- Count for those who watch. A field that is no number is left alone.
local function count_up(field, number)
  if watched == nil and number > 0 then
    watched = redis.pcall('HEXISTS', counters, 'since') == 1
  end
  if watched and number > 0 then
    redis.pcall('HINCRBY', counters, field, number)
  end
end

-- What ties a count on the list, a unique push or a note of failures to its body: another message
-- may have the same id.
local function mark(body)
  return #body .. ':' .. redis.sha1hex(string.sub(body, 1, 512) .. string.sub(body, -512))
end

-- Return the failures of earlier deliveries of this very message, newest last. The note may be of
-- another message.
local function failures_of(note, body, before)
  local found = {}
  if note and string.match(note, '^[^\n]*') == mark(body) then
    for entry, attempt in string.gmatch(note, '\n((%d+):[^\n]*)') do
      if tonumber(attempt) >= before then
        return {} -- counts only grow, so these are of an earlier message
      end
      found[#found + 1] = entry
    end
  end
  return found
end

-- Return the last fields of a dead letter: its failures if there are any, and whether it is of a
-- unique push.
local function last_fields(found, unique)
  local fields = unique and {'unique', '1'} or {}
  if #found > 0 then
    fields[#fields + 1] = 'errors'
    fields[#fields + 1] = table.concat(found, '\n')
  end
  return fields
end

-- Return whether RECEIVES has this of a message of a unique push, which is leased or delayed.
local function is_unique(note)
  return note and string.find(note, '[: ]') ~= nil
end
-- End of parts (edit them in lua/parts)

-- Return the score and the set of a message that may be canceled.
local function place_of(key, due)
  local score = tonumber(redis.call('ZSCORE', delayed, key) or nil)
  if score then
    return (due == '' or score == tonumber(due)) and score, delayed
  end
  score = due == '' and tonumber(redis.call('ZSCORE', backup, key) or nil)
  return score and (running == '1' or score <= now) and score, backup
end

-- Note which delivery was canceled, for its holder's next extend. The note ends with the lease.
-- Another delivery of the same key has another receipt.
local function note_for_holder(key, deadline)
  local ends = string.format('%.0f', deadline)
  local note = has_extended and redis.call('HGET', extended, key) or ''
  local receipt = string.match(note, '^(%d+):' .. ends .. '$') or ends
  redis.call('HSET', extended, key, receipt .. ':canceled:' .. ends)
end

local canceled, ended, looked, bytes, gone, ids = 0, 0, 0, 0, {}, {}
while 2 * looked + 1 < #ARGV and canceled < MAX_IN_CALL and bytes < BODY_BUDGET do
  local due, key = ARGV[2 * looked + 2], ARGV[2 * looked + 3]
  looked = looked + 1
  local score, zset = place_of(key, due)
  local body = score and redis.call('HGET', context, key)
  -- A key without a body is left to pop and the audit, which report it.
  if body then
    local is_delayed = zset == delayed
    local noted = redis.call('HGET', receives, key)
    local count = tonumber(noted) or (is_delayed and 0 or 1)
    local note = has_errors and redis.call('HGET', errors, key) or ''
    local found = failures_of(note, body, is_delayed and count + 1 or count)
    local others = last_fields(found, is_unique(noted))
    -- The first write frees memory, so that messages can be canceled at maxmemory.
    redis.call('ZREM', zset, key)
    local id = redis.call('XADD', dead, '*', 'key', key, 'body', body, 'reason', 'canceled',
      'count', count, 'time', string.format('%.0f', now), unpack(others))
    redis.call('HDEL', context, key)
    redis.call('HDEL', receives, key)
    redis.call('HDEL', errors, key)
    if not is_delayed then
      note_for_holder(key, score)
      ended = ended + 1
    end
    canceled = canceled + 1
    gone[canceled], ids[canceled] = key, id
    -- A pattern reads the notes, which takes longer than moving them.
    bytes = bytes + #body + 4 * #note
  end
end
count_up('dead:canceled', canceled)
count_up('ended', ended)

-- Nothing else removes these notes. Look at a few, more than were added.
local most = SWEPT + 2 * ended
local noted = ended > 0 and redis.call('HRANDFIELD', extended, most, 'WITHVALUES') or {}
for i = 1, #noted, 2 do
  local ends = string.match(noted[i + 1], ':canceled:(%d+)$')
  if ends and tonumber(ends) <= now then
    redis.call('HDEL', extended, noted[i])
  end
end
if not record or canceled == 0 then
  return {canceled, looked}
end

local now_text = string.format('%.0f', now)
-- Parts: groups/rates, groups/slots, groups/slot_changes, groups/stop, groups/stop_all
-- Return by how many µs a group is ahead of its rate: at most its burst, because otherwise it would
-- stand still for as long as a clock was set back.
local ahead = {}
local function ahead_of(tag)
  local till = not ahead[tag] and tonumber(redis.call('ZSCORE', rates, tag) or nil) or now
  ahead[tag] = ahead[tag] or math.min(rules.burst * rules.each, math.max(0, till - now))
  return ahead[tag]
end

-- Return the µs until the next message of a group may be taken: 0 if one may be.
local function pause_of(tag)
  if not rules.each or tag == '' then
    return 0
  end
  local free = (rules.burst - 1) * rules.each + 0.000001
  return math.max(0, math.ceil(ahead_of(tag) - free))
end

local PLACE = 16 -- digits of the place of a message in the order of its group

-- Return what members of PARKED and RUNS begin with if they are of this group. The length of its
-- name is in front, so no name is the beginning of another.
local heads = {}
local function head_of(tag)
  heads[tag] = heads[tag] or string.format('%03d', #tag) .. tag
  return heads[tag]
end

-- Return the range of these members, as Redis writes it.
local function range_of(tag)
  local head = head_of(tag) -- a digit follows; ':' is the next character
  return '[' .. head, '(' .. head .. ':'
end

-- Return up to a number of a group's members of PARKED or RUNS, the first ones.
local function first_of(zset, tag, number)
  local low, high = range_of(tag)
  return redis.call('ZRANGEBYLEX', zset, low, high, 'LIMIT', '0', number)
end

local slots, turned = {}, 0 -- tag -> its messages in flight
local function slots_of(tag)
  slots[tag] = slots[tag] or tonumber(redis.call('HGET', busy, tag) or nil) or 0
  return slots[tag]
end

-- The group of the message that was moved to the list to wake a consumer, and since when it was
-- the group's turn.
local woken_since, woken_tag = string.match(woken_note,
  '^[^ ]* ([^ ]*) %d%d%d(.*)' .. string.rep('%d', PLACE) .. '$')

-- Return whether a dead letter stops a group.
local stops = {}
local function has_stopped(tag)
  if are_stopped and stops[tag] == nil then
    stops[tag] = redis.call('HEXISTS', stopped, tag) == 1
  end
  return are_stopped and stops[tag]
end

-- Messages without a group have no limit, and take their turn like a group. A group whose first
-- message is on the list waits for it.
local function is_free(tag)
  return tag ~= woken_tag and (tag == '' or slots_of(tag) < rules.limit and not has_stopped(tag))
end

-- Put a group into TURNS exactly if it has parked messages and a free slot: behind the others, or
-- where it was, or where its rate permits the next message.
local function turn(tag, since)
  if not are_parked then
    return
  end
  if is_free(tag) and redis.call('ZLEXCOUNT', parked, range_of(tag)) > 0 then
    turned = turned + 1
    local pause = pause_of(tag)
    since = pause == 0 and since or string.format('%.0f', now + (pause > 0 and pause or turned))
    redis.call('ZADD', turns, since, tag)
  else
    redis.call('ZREM', turns, tag)
  end
end

local altered = {} -- groups whose number of messages in flight has to be written

-- Read the slots of several groups at once.
local function know_slots(tags)
  local numbers = redis.call('HMGET', busy, unpack(tags))
  for i = 1, #tags do
    local tag, number = tags[i], numbers[i]
    if not slots[tag] then
      slots[tag] = number and tonumber(number) or 0
    end
  end
end

local function add_slots(tag, number)
  local sum = (slots[tag] or slots_of(tag)) + number
  slots[tag], altered[tag] = sum > 0 and sum or 0, true
end

local printed = {} -- of numbers: Redis prints each argument that is a number, which takes longer
local function write_slots()
  local taken, freed = {}, {}
  for tag in pairs(altered) do
    local number = slots[tag]
    if number > 0 then
      local text, last = printed[number], #taken
      if not text then
        text = string.format('%.0f', number)
        printed[number] = text
      end
      taken[last + 1], taken[last + 2] = tag, text
    else
      freed[#freed + 1] = tag
    end
  end
  for i = 1, #freed, 1000 do
    redis.call('HDEL', busy, unpack(freed, i, math.min(i + 999, #freed)))
  end
  for i = 1, #taken, 1000 do
    redis.call('HSET', busy, unpack(taken, i, math.min(i + 999, #taken)))
  end
  altered = {}
end

-- Let a dead letter stop its group, if the record says so. It keeps its place there: rank.
local function stop(tag, rank, letter)
  if rules.stops and tag ~= '' then
    local others = redis.call('HGET', stopped, tag)
    redis.call('HSET', stopped, tag, others and others .. ' ' .. letter or letter)
    redis.call('HSET', letters, letter, rank .. tag)
    redis.call('ZREM', turns, tag)
    are_stopped, stops[tag] = true, true
  end
end

-- Let the dead letters of messages that had these keys stop their groups, if the record says so.
local function stop_all(keys, dead_ids)
  if rules.stops then
    for i, entry in ipairs(redis.call('HMGET', flight, unpack(keys))) do
      if entry then
        stop(string.sub(entry, PLACE + 2), string.sub(entry, 2, PLACE + 1), dead_ids[i])
      end
    end
  end
end
-- End of parts (edit them in lua/parts)
-- Parts: groups/free, groups/wake, groups/admit
-- Take settled messages out of the runs of their groups: all of a group, or some. If one message of
-- a run is left, it is no longer a run. The first one that is left becomes due if it waits for an
-- earlier one.
local function leave_runs(keys, entries, known)
  local members = {}
  for i, entry in ipairs(entries) do
    local tag = entry and string.sub(entry, PLACE + 2)
    if tag and slots_of(tag) > known[tag] then
      members[#members + 1] = head_of(tag) .. string.sub(entry, 2, PLACE + 1) .. keys[i]
    end
  end
  if #members > 0 then
    redis.call('ZREM', runs, unpack(members))
  end
  for tag, number in pairs(known) do
    local before, left = slots_of(tag), slots_of(tag) - number
    local first = before > 1 and left > 0 and first_of(runs, tag, 1)[1]
    local key = first and string.sub(first, #head_of(tag) + PLACE + 1)
    local entry = key and redis.call('HGET', flight, key)
    if entry and string.byte(entry) == 62 and redis.call('ZSCORE', delayed, key) then -- >
      redis.call('ZADD', delayed, 'XX', now_text, key)
      redis.call('HSET', flight, key, '=' .. string.sub(entry, 2))
    end
    if before > 1 and left <= 1 then
      redis.call('ZREMRANGEBYLEX', runs, range_of(tag))
    end
  end
end

-- Free the slots of messages that are settled.
local function free(keys)
  local entries, tags, known = redis.call('HMGET', flight, unpack(keys)), {}, {}
  for i = 1, #keys do
    local tag = entries[i] and string.sub(entries[i], PLACE + 2)
    local number = tag and known[tag]
    if number then
      known[tag] = number + 1
    elseif tag then
      known[tag], tags[#tags + 1] = 1, tag
    end
  end
  if #tags == 0 then
    return
  end
  know_slots(tags)
  redis.call('HDEL', flight, unpack(keys))
  if redis.call('ZCARD', runs) > 0 then
    leave_runs(keys, entries, known)
  end
  for i = 1, #tags do
    local tag = tags[i]
    add_slots(tag, -known[tag])
    if are_parked then
      turn(tag)
    end
  end
end

-- Let the group of the message that was moved to the list take its turn again: it was parked again,
-- or it is gone, because a bare RPOP took it.
local function forget_woken()
  if woken_tag then
    local tag = woken_tag
    woken_tag = nil
    redis.call('DEL', woken)
    turn(tag, woken_since)
  end
end

-- Consumers wait for a push onto the list. So if it is some group's turn, the lists are empty, and
-- a consumer has waited lately, move the group's first message to the end that is popped. WOKEN
-- ties its body to its place, to which the next pop returns it.
local function wake()
  if redis.call('ZCARD', turns) == 0 or redis.call('EXISTS', ready, handoff) > 0
    or redis.call('EXISTS', looks) == 0 then
    return
  end
  forget_woken()
  local tag, since = unpack(redis.call('ZRANGE', turns, '0', '0', 'WITHSCORES'))
  if pause_of(tag) > 0 then
    return -- consumers know from their pops when to look
  end
  local member = first_of(parked, tag, 1)[1]
  redis.call('ZREM', turns, tag)
  if member then
    local place = #head_of(tag) + PLACE
    local body = string.sub(member, place + 1)
    redis.call('ZREM', parked, member)
    redis.call('RPUSH', ready, body)
    redis.call('SET', woken, mark(body) .. ' ' .. since .. ' ' .. string.sub(member, 1, place))
  end
end

-- A consumer that met the limit of the queue waits for an element of ROOM. If there is room now and
-- a consumer has waited lately, let one look again; its pop lets the next one.
local function admit()
  if rules.most > 0 and redis.call('ZCARD', backup) < rules.most
    and redis.call('EXISTS', looks) == 1 and redis.call('LLEN', room) == 0 then
    redis.call('RPUSH', room, '1')
    redis.call('PEXPIRE', room, '10000') -- nobody may be waiting
  end
end
-- End of parts (edit them in lua/parts)

stop_all(gone, ids)
free(gone)
write_slots()
wake()
admit()
return {canceled, looked}
