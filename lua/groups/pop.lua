-- pop: settle finished messages of a grouped queue, then take the next ones, each under a lease.
--
-- KEYS[1] {name}           LIST    ready messages: pushed on the left, taken from the right
-- KEYS[2] {name}BACKUP     ZSET    lease key -> deadline, µs since the epoch
-- KEYS[3] {name}CONTEXT    HASH    lease key -> the message as it was pushed
-- KEYS[4] {name}HANDOFF    LIST    front of the ready list: messages handed to a blocked consumer
-- KEYS[5] {name}RECEIVES   HASH    lease key -> receive count of redelivered messages; and notes of
--                                  messages on the lists, see pop.lua
-- KEYS[6] {name}EXTENDED   HASH    lease key -> receipt:deadline of extended leases
-- KEYS[7] {name}DELAYED    ZSET    lease key -> due time, µs since the epoch
-- KEYS[8] {name}DEAD       STREAM  key, body, reason, count, time, errors of dead letters
-- KEYS[9] {name}PAUSED     STRING  exists while the queue is paused
-- KEYS[10] {name}HELD      STRING  the record of the groups, see groups/record.lua
-- KEYS[11] {name}COUNTERS  HASH    counts, kept while a client watches; see watch.lua
-- KEYS[12] {name}ERRORS    HASH    lease key -> why deliveries of it failed; see nack.lua
-- KEYS[13] {name}WAITERS:LOOKS  STRING  see pop.lua; exists if a consumer has waited lately
-- KEYS[14] {name}GROUPS:BUSY    HASH    group -> its messages in flight: delivered and not settled,
--                                  leased or not; under an empty name the last place in PARKED
-- KEYS[15] {name}GROUPS:PARKED  ZSET    all scores 0: length of the group's name (3 digits), its
--                                  name, place (16 digits), body of a message moved aside. The
--                                  place is the µs at which that was done, or more: it only grows
-- KEYS[16] {name}GROUPS:TURNS   ZSET    group that has parked messages and a free slot -> since, µs
--                                  (in the future: when its rate permits a message)
-- KEYS[17] {name}GROUPS:FLIGHT  HASH    lease key -> = or >, place (16 digits), group; > if the
--                                  message waits in DELAYED for another one of its run
-- KEYS[18] {name}GROUPS:RUNS    ZSET    as PARKED, with lease keys instead of bodies: messages of a
--                                  group that one call delivered, though only one may be in flight
-- KEYS[19] {name}GROUPS:WOKEN   STRING  length:hash of a message moved to the list to wake a
--                                  consumer, since when it was its group's turn (µs), and what its
--                                  member of PARKED began with, separated by spaces
-- KEYS[20] {name}GROUPS:RATES   ZSET    group -> when it may have its whole burst again, µs
-- KEYS[21] {name}GROUPS:ROOM    LIST    an element lets a consumer that met the limit look again
-- KEYS[22] {name}GROUPS:STOPPED HASH    group -> ids of the dead letters that stop it, separated by
--                                  spaces; only if the record says that dead letters do so
-- KEYS[23] {name}GROUPS:LETTERS HASH    id of such a dead letter -> place, group
--
-- ARGV[1] wanted           integer 1..1000             messages
-- ARGV[2] timeout          integer 1..43200000000      µs, visibility timeout
-- ARGV[3] jitter           integer 0..65535            µs, drawn for each call
-- ARGV[4] max_receives     integer 0..1000000          0: no limit
-- ARGV[5] max_body         integer 1..536870912        bytes; longer ones are dead-lettered
-- ARGV[6] expected         the record as the caller knows it
-- ARGV[7] waited           integer -1..9007199254740991  µs for which the consumer has waited just
--                                                       before; -1: it does not wait
-- ARGV[8] settled          groups of: receipt, size 1..4000, then size lease keys; may be absent
--
-- A group has at most as many messages in flight as the record says. If that is one, a call may
-- deliver several of a group, in order; the group is then busy until all are settled. Messages of a
-- busy group are moved aside, in order, and groups that may go on take turns. A rate is a limit of
-- deliveries: a message that came back waits in DELAYED until its group's rate permits one more.
-- Returns what pop.lua returns, but never 'held'. 'last' also means that nothing is parked. Or, if
-- the queue has as many leases as the record permits, {'limited', refused, wait, waiters} as of
-- 'empty': wait for an element of ROOM, or for the end of a lease.
-- The error ACKQ_GROUPS: the record is missing or differs; nothing was done.
-- Atomic because a slot of a group must be taken and freed with the message that has it.
-- Cost: O((settled + 600) log messages), at most 1 MiB of bodies and of notes of dead letters, plus
-- 16 messages behind short ones; each byte of a note counts as four, and of a message moved aside
-- as two. A call delivers at most 200 messages of the lists, 200 whose turn it is, and 200 that
-- came back. It moves at most 200 aside, or 100 if others were delivered before them.
-- Roles: consumer, worker, doctor
local ready, backup, context, handoff = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local receives, extended, delayed, dead, paused = KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local record, counters, errors, looks = KEYS[10], KEYS[11], KEYS[12], KEYS[13]
local busy, parked, turns, flight = KEYS[14], KEYS[15], KEYS[16], KEYS[17]
local runs, woken, rates, room = KEYS[18], KEYS[19], KEYS[20], KEYS[21]
local stopped, letters = KEYS[22], KEYS[23]
local wanted, timeout, jitter = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local max_receives, max_body, expected = tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6]
local waited, settled = tonumber(ARGV[7]), 8

local SCRIPT = 'pop' -- in errors
local BODY_BUDGET = 1048576 -- bytes of bodies one call may move
local ASIDE_COSTS = 2 -- bytes that each byte moved aside counts as
local SLICE = 16 -- bodies read at a time, as long as those before were short
local SHORT = 4096 -- bytes
local DEAD_LETTER_BUDGET = 100 -- dead letters written in one call
local RECOVERED = 200 -- messages that came back, of each kind, in one call
local SERVED = 200 -- messages whose turn it is that one call delivers before it looks at the lists
local AT_GATE = 200 -- messages of the lists that one call delivers or moves aside
local RUN = 100 -- messages of one group in a run
local STEP = 1000000 -- µs by which a clock that is set back is not noticed
local SWEPT = 100 -- counts, notes and slots that one call looks at, whose messages may be gone
local SWEEPS = 8 -- one in this many calls that take messages looks at a tenth of those slots
local LONG_BATCH = 20 -- messages
-- Redis stores a small sorted set or hash as a list and scans it at each insertion, unless a member
-- is over 64 bytes long (zset-max-listpack-value). So a long batch adds such a member for a moment.
-- It cannot be a lease key, because derived keys have no hyphen.
local LONG_KEY = '\0' .. string.rep('-', 64)
local SAMPLED = 64 -- one in this many calls counts the length of its leases
local COUNTED = 100 -- fields of the counters; further lengths of leases are not counted
local FIRST = string.rep('0', 16) -- the place of a message that was never parked

-- include: outside, groups/rules

if outside(wanted, 1, 1000) or outside(timeout, 1, 43200000000) or outside(jitter, 0, 65535)
  or outside(max_receives, 0, 1000000) or outside(max_body, 1, 536870912)
  or outside(waited, -1, 9007199254740991) then
  return redis.error_reply('ACKQ_ARGUMENT pop: an argument is out of range; see groups/pop.lua')
end

local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local now_text = clock[1] .. string.sub('00000' .. clock[2], -6)
local deadline = now + timeout + jitter
local is_waiting = waited >= 0
local lease = string.format('%.0f', deadline)

-- Check every type before the first write, so that an error means that nothing was done.
local rules = rules_of(expected)
if not rules or redis.call('GET', record) ~= expected then
  return redis.error_reply('ACKQ_GROUPS pop: the record of the groups is missing or another one')
end
local limit = rules.limit
redis.call('LLEN', ready)
redis.call('LLEN', handoff)
local has_receives = redis.call('HLEN', receives) > 0
local has_extended = redis.call('HLEN', extended) > 0
local has_errors = redis.call('HLEN', errors) > 0
local has_delayed = redis.call('ZCARD', delayed) > 0
local watched = redis.call('HEXISTS', counters, 'since') == 1
redis.call('XLEN', dead)
redis.call('HLEN', busy)
local are_parked = redis.call('ZCARD', parked) > 0
redis.call('ZCARD', turns)
redis.call('HLEN', flight)
local has_runs = redis.call('ZCARD', runs) > 0
local woken_note = redis.call('GET', woken) or ''
redis.call('ZCARD', rates)
local are_stopped = rules.stops
  and redis.call('HLEN', letters) + redis.call('HLEN', stopped) > 0
redis.call('LLEN', room)

-- include: holds, settle

-- include: mark, groups/rates, groups/slots, groups/slot_changes
-- include: groups/stop, groups/free, groups/wake, groups/admit

local charged = {} -- groups whose rate is written

-- Charge a group for a message that is taken.
local function take_permit(tag)
  if rules.each and tag ~= '' then
    ahead[tag], charged[tag] = ahead_of(tag) + rules.each, true
  end
end

local function write_permits()
  local spent, later = {}, {}
  for tag in pairs(charged) do
    spent[#spent + 1], spent[#spent + 2] = string.format('%.0f', now + math.ceil(ahead[tag])), tag
    local pause = pause_of(tag)
    if pause > 0 then
      later[#later + 1], later[#later + 2] = string.format('%.0f', now + pause), tag
    end
  end
  if #spent > 0 then
    redis.call('ZADD', rates, unpack(spent))
  end
  if #later > 0 then
    redis.call('ZADD', turns, 'XX', 'GT', unpack(later))
  end
end

local DECODE_BUDGET = 73728 -- bytes decoded in one call, and an eighth of those searched for a name
local decoded = 0
local read
do
  local MAX_DECODED = 65536 -- bytes; nothing can stop a script while it decodes
  local LONG_ID = 64 -- bytes; the rest of an id or a group counts half as much as decoding
  local LONG_NAME = 512 -- bytes; of a group with a longer name its hash is stored
  local HEAD = 1200 -- bytes in which the longest id and the group behind it end
  local NUMBER = '(%-?[1-9]' .. string.rep('%d?', 14) .. ')[,}]'
  local NO_GROUP = rules.field == '' and '' or nil
  local QUOTED = '"' .. rules.field .. '"'
  local NAMED = ',%s?' .. string.gsub(QUOTED, '%W', '%%%0') .. ':%s?'
  local USUAL = '^{"id":%s?"([^"\\%c]+)"' .. NAMED .. '"([^"\\%c]+)"'

  -- Return an id or a group as text, or nil. A whole number is the same as its digits in quotes.
  local function name_of(value)
    if type(value) == 'number' and value % 1 == 0 and math.abs(value) < 9007199254740992 then
      return string.format('%.0f', value + 0)
    end
    return type(value) == 'string' and value ~= '' and value or nil
  end

  -- Return the id of a JSON object as a lease key, or nil, and its group, or ''. ackq's producers
  -- put them first, so the usual message needs no decoding.
  function read(body)
    local before = decoded
    local head = #body <= HEAD and body or string.sub(body, 1, HEAD)
    local id, tag = string.match(head, USUAL)
    tag = NO_GROUP or tag
    if id and #id <= LONG_ID and #tag <= LONG_ID then
      return id, tag
    elseif not id then
      local behind
      id, behind = string.match(head, '^{"id":%s?"([^"\\%c]+)"()')
      if not id then
        id, behind = string.match(head, '^{"id":%s?([1-9]' .. string.rep('%d?', 14) .. ')()[,}]')
      end
      tag = NO_GROUP or id and (string.match(head, '^' .. NAMED .. '"([^"\\%c]+)"', behind)
        or string.match(head, '^' .. NAMED .. NUMBER, behind))
    end
    if not (id and tag) and #body <= MAX_DECODED then
      local has_tag = not tag and string.find(body, QUOTED, 1, true)
      local named = has_tag or not id and string.find(body, '"id"', 1, true)
      decoded = decoded + #body / 8 + (named and #body or 0)
      if named and decoded <= DECODE_BUDGET then
        local valid, object = pcall(cjson.decode, body)
        if valid and type(object) == 'table' then
          id = id or name_of(object.id)
          tag = tag or has_tag and name_of(object[rules.field])
        end
      end
    end
    if id and (#id > 512 or string.byte(id) == 0) then
      id = nil
    end
    if id and #id > LONG_ID then
      decoded = decoded + (#id - LONG_ID) / 2
    end
    if tag and #tag > LONG_ID then
      decoded = decoded + (#tag - LONG_ID) / 2
    end
    if before == 0 then
      decoded = math.min(decoded, DECODE_BUDGET) -- the first body of a call is always within it
    end
    if tag and #tag > LONG_NAME then
      tag = '\1' .. redis.sha1hex(tag)
    end
    return id, tag or ''
  end
end

-- The first write frees memory, even if only nothing: at maxmemory Redis rejects a script whose
-- first write may allocate, and a full queue could never drain.
if acked > 0 then
  free(done)
  write_slots()
else
  redis.call('HLEN', context)
  redis.call('ZREMRANGEBYRANK', backup, 1, 0)
end

if redis.call('EXISTS', paused) == 1 then
  return {'paused', refused}
end

local reply = {'ok', refused, deadline, {}}
local counts, leases, recounted, entered, flights, ran = reply[4], {}, {}, {}, {}, {}
local taken, returned, dead_lettered, bytes, derived = 0, 0, 0, 0, 0
local looked, deferred, gone = 0, 0, {} -- gone: keys of messages in flight that died
local last_receive = max_receives > 0 and max_receives or math.huge
local full = false

-- include: count_up, spend, failures, add_failure, is_unique
-- include: unique_notes, noted_mark, cancels

-- Return whether it may be some group's turn.
local function are_due()
  if not rules.each then
    return redis.call('ZCARD', turns) > 0
  end
  local first = redis.call('ZRANGE', turns, '0', '0', 'WITHSCORES')
  return first[2] ~= nil and tonumber(first[2]) <= now + turned
end

-- Return whether a message of a group may be taken although others of it may be parked.
local function may_pass(tag)
  return is_free(tag) and (not rules.each
    or pause_of(tag) == 0 and not redis.call('ZSCORE', turns, tag))
end

if rules.each then
  local spent = redis.call('ZRANGEBYSCORE', rates, '-inf', now_text, 'LIMIT', '0', wanted + SWEPT)
  if #spent > 0 then
    redis.call('ZREM', rates, unpack(spent))
  end
  -- A group of the far future has waited there since before the clock was set back.
  local far = string.format('(%.0f', now + rules.each + STEP)
  for _, tag in ipairs(redis.call('ZRANGEBYSCORE', turns, far, '+inf', 'LIMIT', '0', SWEPT)) do
    redis.call('ZADD', turns, now_text, tag)
  end
end

local has_turns = are_due()
local last_place = tonumber(redis.call('HGET', busy, '') or nil) or 0
local place = last_place
local has_taken = {} -- lease key -> true, of messages that came back
-- Of the groups that may have one message in flight: where in the reply the first one is that this
-- call takes, its place if it has one, and how many it takes if that is more than one; and the
-- groups that may have further ones, in the order found.
local first_at, first_place, mine, followed, is_followed = {}, {}, {}, {}, {}
-- Messages that this call moves aside: group -> id or false, body, id, body, ...; their groups in
-- order; and the groups that may have others in PARKED.
local aside, aside_tags, in_parked = {}, {}, {}

-- include: dead_letter, must_wait

local function deliver(key, body, count, tag, at)
  local last = 2 * taken
  leases[last + 1], leases[last + 2] = lease, key
  reply[last + 5], reply[last + 6] = key, body
  taken, bytes = taken + 1, bytes + #body
  full = full or taken >= wanted or bytes >= BODY_BUDGET or count >= last_receive
  if rules.each then
    take_permit(tag)
  end
  if limit > 1 or tag == '' then
    return
  elseif not first_at[tag] then
    first_at[tag] = last + 5
    if at ~= FIRST then
      first_place[tag] = at
    end
    return
  elseif not mine[tag] then
    mine[tag] = 1
    ran[#ran + 1], ran[#ran + 2] = '0',
      head_of(tag) .. (first_place[tag] or FIRST) .. reply[first_at[tag]]
  end
  ran[#ran + 1], ran[#ran + 2] = '0', head_of(tag) .. at .. key
  mine[tag] = mine[tag] + 1
end

-- Give a message a slot of its group.
local function enter(key, tag, at)
  if tag ~= '' then
    local number = #entered + 1
    entered[number], flights[2 * number - 1], flights[2 * number] = key, key, '=' .. at .. tag
    add_slots(tag, 1)
  end
end

-- include: listed_count, is_receipt

-- The group of a message that this call takes may have others that are moved aside.
local function follow(tag)
  if first_at[tag] and not is_followed[tag] then
    followed[#followed + 1], is_followed[tag] = tag, true
  end
end

-- Move a message aside, behind those of its group. It stays here until the call knows whether it
-- delivers it after all.
local function park(body, tag, id)
  local messages = aside[tag]
  if not messages then
    messages = {}
    aside[tag], aside_tags[#aside_tags + 1] = messages, tag
    follow(tag)
  end
  messages[#messages + 1], messages[#messages + 2] = id or false, body
  bytes = bytes + ASIDE_COSTS * #body
  if is_free(tag) then
    local pause = pause_of(tag)
    turned = turned + 1
    redis.call('ZADD', turns, 'NX',
      string.format('%.0f', now + (pause > 0 and pause or turned)), tag)
    has_turns = has_turns or pause == 0
  end
end

local function next_place()
  place = math.max(place + 1, now)
  return string.format('%016.0f', place)
end

-- Store the messages moved aside, but the first ``used`` of each group.
local function write_parks(used)
  local members = {}
  for _, tag in ipairs(aside_tags) do
    local messages, head = aside[tag], head_of(tag)
    for i = 2 * (used and used[tag] or 0) + 2, #messages, 2 do
      members[#members + 1], members[#members + 2] = '0', head .. next_place() .. messages[i]
      in_parked[tag] = true
    end
  end
  aside, aside_tags = {}, {}
  if #members > 0 then
    redis.call('ZADD', parked, unpack(members))
    are_parked = true
  end
end

local waits_until
do
  local LOOKS_OF_RUN = 8 -- messages of a run that are read for as much as looking at one costs
  local RECHECKED = 1000000 -- µs after which the first message of a run looks again for the others

  -- Return the messages of a group's run: their keys in order, and the deadlines of their leases.
  local known_runs = {}
  local function run_of(tag)
    if not known_runs[tag] then
      local members, keys = first_of(runs, tag, RUN), {}
      for i, member in ipairs(members) do
        keys[i] = string.sub(member, #head_of(tag) + PLACE + 1)
      end
      looked = looked + #keys / LOOKS_OF_RUN
      known_runs[tag] = {keys, #keys > 0 and redis.call('ZMSCORE', backup, unpack(keys)) or {}}
    end
    return unpack(known_runs[tag])
  end

  -- Return the µs at which to look again, if a message of a run has to wait: for an earlier one
  -- that is not settled, or a later one whose lease runs. The end of one makes the next one due, so
  -- those behind it look again less often.
  function waits_until(key, tag)
    local keys, deadlines = run_of(tag)
    local is_earlier, rank, is_leased, till = true, 0, false, nil
    for i, other in ipairs(keys) do
      is_earlier = is_earlier and other ~= key
      rank = rank + (is_earlier and 1 or 0)
      if not till and other ~= key and not has_taken[other] then
        local ends = tonumber(deadlines[i] or nil)
        is_leased = ends and ends > now
        if is_leased or is_earlier then
          till = ends or tonumber(redis.call('ZSCORE', delayed, other) or nil)
        end
      end
    end
    if is_leased and till then
      till = math.min(till, now + RECHECKED * (rank + 1))
    end
    return till and till + rank
  end
end

-- Let a message wait in DELAYED, for another one of its run or for its group's rate. If its lease
-- has ended, that delivery counts if ``charge`` is 1.
local function defer(zset, key, entry, noted, till, charge)
  if zset == backup then
    local count = (tonumber(noted) or 1) - 1 + charge
    local text = count > 0 and string.format('%.0f', count) or ''
    if is_unique(noted) then
      text = text .. (count > 0 and ' ' or ':')
    end
    if text == '' then
      redis.call('HDEL', receives, key)
    else
      redis.call('HSET', receives, key, text)
    end
    redis.call('ZREM', backup, key)
    redis.call('HDEL', extended, key)
    count_up(charge == 1 and 'returned' or 'ended', 1)
  end
  redis.call('ZADD', delayed, string.format('%.0f', till), key)
  redis.call('HSET', flight, key, entry)
  has_delayed, deferred = true, deferred + 1
end

-- Return whether a message that comes back, with this place, returns to it: its group is stopped,
-- or the dead letter that stopped it was redriven.
local function goes_home(tag, at)
  if not rules.stops or tag == '' then
    return false
  end
  local head = head_of(tag)
  return has_stopped(tag) or limit == 1
    and redis.call('ZLEXCOUNT', parked, '[' .. head, '(' .. head .. at) > 0
end

-- Move a message aside that is due, or whose lease has ended: to the place that it has, or behind
-- those of its group if it has none and no slot, since it was pushed for later, redriven, or taken
-- before the queue had groups.
local function park_back(zset, key, body, tag, count, noted, at)
  redis.call('ZREM', zset, key)
  forget(key)
  if string.byte(key) ~= 0 and (count > 0 or is_unique(noted)) then
    redis.call('HSET', receives, key, string.format('%.0f:', count) .. mark(body)
      .. (is_unique(noted) and ':0' or ''))
    has_receives = true
  end
  if string.byte(key) == 0 or count == 0 then
    redis.call('HDEL', errors, key)
  end
  count_up(at and 'returned' or 'ended', zset == backup and 1 or 0)
  if at then
    redis.call('ZADD', parked, '0', head_of(tag) .. at .. body)
    bytes, are_parked, in_parked[tag] = bytes + ASIDE_COSTS * #body, true, true
    gone[#gone + 1], has_taken[key] = key, true
  else
    park(body, tag)
  end
  full = full or bytes >= BODY_BUDGET
end

-- Lease expired or due messages in place. An absent count is 1 in BACKUP, 0 in DELAYED.
local queued = {} -- group -> its messages that wait for its rate now
local function take_back(zset, keys, absent)
  local known = has_receives and #keys > 0 and redis.call('HMGET', receives, unpack(keys)) or {}
  local entries = #keys > 0 and redis.call('HMGET', flight, unpack(keys)) or {}
  for i = 1, #keys do
    if full or looked >= RECOVERED then
      return
    end
    looked = looked + 1
    -- Read one by one, because a body may have any length.
    local key, entry, body = keys[i], entries[i], redis.call('HGET', context, keys[i])
    local count = 1 + (tonumber(known[i]) or absent)
    local tag = entry and string.sub(entry, PLACE + 2) or ''
    local at = entry and string.sub(entry, 2, PLACE + 1) or FIRST
    local is_dead = max_receives > 0 and count > max_receives
    local is_home = entry and body and not is_dead and goes_home(tag, at)
    local till = has_runs and entry and body and not is_home and waits_until(key, tag)
    if body and not entry then
      tag = select(2, read(body))
    end
    if decoded > DECODE_BUDGET then
      full = true
    elseif not body then
      redis.call('ZREM', zset, key)
      forget(key)
      redis.call('HDEL', errors, key)
      count_up('ended', zset == backup and 1 or 0)
      stop(tag, at, dead_letter(key, '', 'body missing', count - 1, {}))
      gone[#gone + 1], has_taken[key] = key, true
    elseif is_home then
      park_back(zset, key, body, tag, count - 1, known[i], at)
    elseif till then
      defer(zset, key, '>' .. string.sub(entry, 2), known[i], till, 0)
    elseif is_dead then
      local note = has_errors and redis.call('HGET', errors, key)
      local found = failures_of(note, body, count)
      bytes = bytes + 4 * #(note or '') -- a pattern reads it, which takes longer than moving it
      if zset == backup then
        add_failure(found, count - 1, '') -- no error is known: its lease ended
        count_up('ended', 1)
      end
      stop(tag, at, dead_letter(key, body, 'max receives', count - 1, found, is_unique(known[i])))
      redis.call('ZREM', zset, key)
      redis.call('HDEL', errors, key)
      forget(key)
      gone[#gone + 1], has_taken[key] = key, true
    elseif must_wait(count) or is_receipt(key) then
      full = true
    elseif entry and pause_of(tag) > 0 then
      -- The next one that waits gets the permit after this one.
      local before = queued[tag] or 0
      queued[tag], charged[tag] = before + 1, true
      defer(zset, key, '=' .. string.sub(entry, 2), known[i],
        now + pause_of(tag) + math.ceil(before * rules.each), 1)
    elseif not entry and tag ~= '' and (has_turns or not may_pass(tag)) then
      park_back(zset, key, body, tag, count - 1, known[i])
    else
      if not entry then
        at = rules.stops and next_place() or at
        enter(key, tag, at)
      elseif string.byte(entry) == 62 then -- >
        redis.call('HSET', flight, key, '=' .. string.sub(entry, 2))
      end
      if zset == delayed then
        redis.call('ZREM', delayed, key)
      else
        returned = returned + 1
      end
      if has_extended then
        redis.call('HDEL', extended, key)
      end
      if count > 1 then
        recounted[#recounted + 1] = key
        recounted[#recounted + 1] = count .. (is_unique(known[i]) and ' ' or '')
      end
      counts[#counts + 1] = count
      deliver(key, body, count, tag, at)
      has_taken[key], in_parked[tag] = true, true
      follow(tag)
    end
  end
end

-- Take back messages until there are none, or the call has enough.
local function take_all_due(zset, absent)
  looked = 0
  repeat
    local before = looked
    -- The messages taken so far keep their old scores in BACKUP until the end: pass over them.
    take_back(zset, redis.call('ZRANGEBYSCORE', zset, '-inf', now_text, 'LIMIT',
      zset == backup and taken or 0, math.min(math.max(1, wanted - taken), RECOVERED)), absent)
  until full or looked == before or looked >= RECOVERED
  full = full or looked >= RECOVERED -- the rest of them comes before what waits
  looked = 0
end

-- include: derive

-- include: free_id

-- Return whether an operator canceled this message, which becomes a dead letter then. It stops no
-- group, since it was never delivered.
local function is_canceled(body, id, noted, head)
  local cancels = open_cancels(head, {id})
  if not (cancels.notes[1] and cancels.use(id, body, cancels.notes[1])) then
    return false
  end
  local count = listed_count(noted, body)
  local note = count > 0 and has_errors and redis.call('HGET', errors, id) or ''
  bytes = bytes + 4 * #note
  dead_letter(id, body, 'canceled', count, failures_of(note, body, count + 1), free_id(body, id))
  if count > 0 then
    redis.call('HDEL', errors, id)
    redis.call('HDEL', receives, id)
  end
  cancels.write()
  return true
end

-- Lease a message that is on a list or parked, or make it a dead letter. Return whether that was
-- done; if not, it has to wait for the next call.
local function lease_one(body, id, tag, at)
  if not has_receives and #body <= max_body and last_receive > 1 then
    -- The usual message, of which nothing is known. The code below does the same.
    local key = id and redis.call('HSETNX', context, id, body) == 1 and id or derive(body)
    enter(key, tag, at)
    deliver(key, body, 1, tag, at)
    return true
  end
  local known, taken_note, head
  if id and has_receives then
    known, taken_note, head = unpack(redis.call('HMGET', receives, id, TAKEN .. id, CANCELS))
  end
  if #body > max_body then
    stop(tag, at, dead_letter('', body, 'too large', 0, {}, free_id(body, id)))
    return true
  elseif head and is_canceled(body, id, known, head) then
    return true
  end
  local count = known and 1 + listed_count(known, body) or 1
  if count >= last_receive and must_wait(count) then
    full = true
    return false
  end
  -- An ack deletes the note of its id, so only the message that it is of may have that key.
  local noted, key = known and noted_mark(known), id
  if id and (not noted or noted == mark(body))
    and redis.call('HSETNX', context, id, body) == 1 then
    -- A count without the mark of a body is of a message that the article's scripts settled.
    local stale = known and tonumber(known)
    if stale and has_errors then
      redis.call('HDEL', errors, key)
    end
    if count > 1 or stale then
      recounted[#recounted + 1] = key
      recounted[#recounted + 1] = count .. (noted and ' ' or '')
    end
  else
    key, count = derive(body), 1
  end
  if taken_note and noted_mark(taken_note) == mark(body) then
    redis.call('HDEL', receives, TAKEN .. id)
  end
  if has_receives then
    counts[#counts + 1] = count
  end
  enter(key, tag, at)
  deliver(key, body, count, tag, at)
  return true
end

-- Take a parked message. Return whether it was taken or became a dead letter, and has to leave.
local function take_parked(member, tag)
  local at = #head_of(tag) + PLACE
  local body = string.sub(member, at + 1)
  local id = #body <= max_body and read(body) or nil
  bytes = bytes + (ASIDE_COSTS - 1) * #body
  if decoded > DECODE_BUDGET then
    full = true
  end
  return not full and lease_one(body, id, tag, string.sub(member, at - PLACE + 1, at))
end

-- Deliver the first message of each group whose turn it is, the least recently served first. If it
-- is the turn of a group whose message was moved to the list, the list has to be read first.
local served, is_served = 0, false
local function serve_turns()
  local is_over = not has_turns
  while not (is_over or full) do
    write_parks()
    local some = math.min(SLICE, wanted - taken, SERVED - served)
    local due = redis.call('ZRANGE', turns, '0', some - 1, 'WITHSCORES')
    local tags, members, passed = {}, {}, 0
    for i = 1, #due, 2 do
      tags[#tags + 1] = due[i]
    end
    know_slots(tags)
    for i, tag in ipairs(tags) do
      local pause, since = pause_of(tag), tonumber(due[2 * i])
      is_over = full or woken_tag and tonumber(woken_since) <= since or pause > 0 and since > now
      if pause > 0 then
        charged[tag] = true -- the clock may have been set back
      end
      local member = not is_over and pause == 0 and is_free(tag) and first_of(parked, tag, 1)[1]
      if is_over or member and not take_parked(member, tag) then
        break
      end
      members[#members + 1], in_parked[tag], passed = member or nil, true, i
      follow(tag)
    end
    if #members > 0 then
      redis.call('ZREM', parked, unpack(members))
    end
    if passed > 0 then
      redis.call('ZREMRANGEBYRANK', turns, '0', passed - 1)
    end
    for i = 1, passed do
      if is_free(tags[i]) then
        turn(tags[i])
      end
    end
    served, is_served = served + passed, is_served or passed > 0
    full = full or served >= SERVED
    has_turns = are_due()
    is_over = is_over or not has_turns
  end
end

local is_stopped = false -- the next message of the lists has to wait for the next call
local read_list
do
  local WITHOUT_ROOM = 100 -- of them while it has no room, so a busy group hides no other for ever

  -- Read the ids and groups of messages within the budget, and the slots of the groups. The group
  -- of a message that is too large is false, unless it stops its group when its turn comes.
  local function read_all(bodies)
    local ids, tags, named, is_named, number = {}, {}, {}, {}, #bodies
    for i = 1, number do
      local body, id, tag = bodies[number + 1 - i], nil, false
      if #body <= max_body or rules.stops then
        id, tag = read(body)
      end
      if decoded > DECODE_BUDGET then
        break
      end
      ids[i], tags[i] = id or false, tag
      if tag and not slots[tag] and not is_named[tag] then
        named[#named + 1], is_named[tag] = tag, true
      end
    end
    if #named > 0 then
      know_slots(named)
    end
    return ids, tags
  end

  -- Deliver the next message of a list or move it aside. Return whether it leaves the list.
  local function pass(body, id, tag, list)
    if woken_tag and string.match(woken_note, '^[^ ]*') == mark(body) then
      write_parks()
      redis.call('ZADD', parked, '0', string.match(woken_note, '^[^ ]* [^ ]* (.*)$') .. body)
      bytes, are_parked, in_parked[woken_tag] = bytes + ASIDE_COSTS * #body, true, true
      forget_woken()
      has_turns = are_due()
      serve_turns()
      return true
    elseif woken_tag and list == ready then
      write_parks()
      forget_woken() -- it would have been the first one here
      has_turns = are_due()
      serve_turns()
    end
    local passes = not tag or (not has_turns and may_pass(tag))
    if tag == nil or (passes and full and not is_served) then
      return false
    end
    looked = looked + 1
    if not tag or (passes and not full) then
      return lease_one(body, id, tag or '', rules.stops and next_place() or FIRST)
    end
    is_served = true
    park(body, tag, id)
    return true
  end

  -- Return how many messages of the lists the call may look at.
  local function may_look()
    if is_stopped or bytes >= BODY_BUDGET or dead_lettered >= DEAD_LETTER_BUDGET then
      return 0
    end
    return full and is_served and WITHOUT_ROOM or AT_GATE
  end

  -- Read a list in order. Its messages' lengths are known only after reading, so read 2, 4, 8, ...
  -- at a time while they are short, and one by one after one that was too large. If the first one
  -- that the call has no room for is of a busy group, it may hide others.
  function read_list(list)
    local slice = 2
    while looked < may_look() do
      local some = full and not is_served and 1 or math.min(slice, may_look() - looked)
      local bodies = redis.call('LRANGE', list, -some, -1)
      local ids, tags = read_all(bodies)
      local used, size, number, most = 0, 0, #bodies, may_look()
      while used < number and looked < most do
        local body = bodies[number - used]
        if not pass(body, ids[used + 1], tags[used + 1], list) then
          is_stopped = true -- messages behind it may be of the same group
          break
        end
        used, size = used + 1, size + #body
        if full or bytes >= BODY_BUDGET then
          most = may_look()
        end
      end
      redis.call('LTRIM', list, '0', -used - 1)
      if used < some then
        return
      end
      slice = size < used * SHORT and math.min(SLICE, 2 * some) or 1
    end
  end
end

-- Deliver further messages of the groups that this call alone has, in order: one consumer may work
-- on several messages of a group. The lengths of those in PARKED are known only after reading: see
-- read_list.
local function extend_runs()
  -- Deliver up to a number of the messages of a group that are parked. Return how many.
  local function extend_parked(tag, most)
    local members, used = first_of(parked, tag, most), 0
    while used < #members and not full and pause_of(tag) == 0 and not has_stopped(tag)
      and take_parked(members[used + 1], tag) do
      used = used + 1
    end
    if used > 0 then
      redis.call('ZREM', parked, unpack(members, 1, used))
    end
    return used, #(members[used] or '')
  end

  -- Deliver up to a number of the messages of a group that this call has moved aside, behind the
  -- first ``used``. Return how many.
  local function extend_aside(tag, most, used)
    local messages, last = aside[tag] or {}, 2 * used
    while most > 0 and messages[last + 2] and not full and pause_of(tag) == 0
      and not has_stopped(tag) do
      local body = messages[last + 2]
      bytes = bytes - ASIDE_COSTS * #body
      if not lease_one(body, messages[last + 1] or nil, tag, next_place()) then
        break
      end
      last, most = last + 2, most - 1
    end
    return last / 2 - used
  end

  local used, slices = {}, {}
  while not full and #followed > 0 do
    local tags = followed
    local share = math.max(1, math.floor((wanted - taken) / #tags))
    followed = {}
    for _, tag in ipairs(tags) do
      local has = mine[tag] or 1
      local is_mine = slots_of(tag) == has and not has_stopped(tag)
      local most = is_mine and math.min(share, RUN - has) or 0
      local is_done = most == 0 or full
      if not is_done and in_parked[tag] then
        local slice = math.min(most, slices[tag] or 1)
        local got, size = extend_parked(tag, slice)
        slices[tag] = size < SHORT and math.min(SLICE / 4, 2 * slice) or 1
        in_parked[tag] = got == slice -- if not, those that this call has moved aside are next
      elseif not is_done then
        local got = extend_aside(tag, most, used[tag] or 0)
        used[tag], is_done = (used[tag] or 0) + got, got == 0
      end
      if not is_done then
        followed[#followed + 1] = tag
      end
    end
  end
  write_parks(used)
end

take_all_due(backup, 1)
-- Redelivered messages keep their room.
local has_room = true
if rules.most > 0 then
  local left = math.max(0, rules.most - redis.call('ZCARD', backup))
  has_room, wanted = left > 0, math.min(wanted, taken + left)
  full = full or taken >= wanted
end
if has_delayed and not full then
  take_all_due(delayed, 0)
end
write_parks()
if #gone > 0 then
  free(gone)
  has_turns = are_due()
end
serve_turns()
if has_room then
  read_list(handoff)
  read_list(ready)
end
if woken_tag and redis.call('EXISTS', ready, handoff) == 0 then
  write_parks()
  forget_woken()
  has_turns = are_due()
end
serve_turns()
extend_runs()

-- include: next_event, waiters

count_up('returned', returned)
local length = 'lease:' .. math.floor(timeout / 1000000)
if watched and taken > 0 and jitter % SAMPLED == 0 and (redis.call('HLEN', counters) < COUNTED
  or redis.call('HEXISTS', counters, length) == 1) then
  count_up(length, taken)
end
if place > last_place then
  redis.call('HSET', busy, '', string.format('%.0f', place))
end
if taken > 0 then
  if taken >= LONG_BATCH and redis.call('EXISTS', backup) == 0 then
    redis.call('ZADD', backup, '0', LONG_KEY)
  end
  redis.call('ZADD', backup, unpack(leases))
  if taken >= LONG_BATCH then
    redis.call('ZREM', backup, LONG_KEY)
  end
  if #flights > 0 then
    -- The slots of earlier messages with these ids, which scripts without groups deleted.
    local stale = {}
    local entries = redis.call('HMGET', flight, unpack(entered))
    for i = 1, #entered do
      if entries[i] then
        stale[#stale + 1] = entered[i]
      end
    end
    if #stale > 0 then
      free(stale)
    end
    if taken >= LONG_BATCH and redis.call('EXISTS', flight) == 0 then
      redis.call('HSET', flight, LONG_KEY, '')
    end
    redis.call('HSET', flight, unpack(flights))
    if taken >= LONG_BATCH then
      redis.call('HDEL', flight, LONG_KEY)
    end
  end
  if #ran > 0 then
    local is_long = #ran >= 2 * LONG_BATCH and redis.call('EXISTS', runs) == 0
    redis.call('ZADD', runs, '0', is_long and LONG_KEY or ran[2], unpack(ran))
    if is_long then
      redis.call('ZREM', runs, LONG_KEY)
    end
  end
  if #recounted > 0 then
    redis.call('HSET', receives, unpack(recounted))
  end
end

-- Look at some slots, and free those of messages that a script without groups has deleted.
local function sweep_slots(some)
  local keys, lost = redis.call('HRANDFIELD', flight, some), {}
  for _, key in ipairs(keys) do
    if redis.call('HEXISTS', context, key) == 0 and not redis.call('ZSCORE', backup, key)
      and not redis.call('ZSCORE', delayed, key) then
      lost[#lost + 1] = key
    end
  end
  if #lost > 0 then
    free(lost)
    write_slots()
  end
  return #lost > 0
end

write_slots()
write_permits()
if taken > 0 and jitter % SWEEPS == 1 then
  sweep_slots(SWEPT / 10) -- a queue may never be empty
end
wake()
admit()
if taken > 0 then
  if is_waiting and redis.call('EXISTS', ready, handoff, parked) == 0
    and next_event(backup, delayed) ~= 0 then
    reply[1] = 'last'
    waiters(true) -- the key also shows wake() that a consumer waits
  end
  return reply
end
if not has_room and dead_lettered + deferred == 0 then
  redis.call('DEL', room) -- nobody may look again
  local wait = next_event(backup)
  return {'limited', refused, wait == 0 and 1 or wait, is_waiting and waiters(true) or nil}
end
if full or is_stopped or dead_lettered > 0 or deferred > 0 or looked >= AT_GATE
  or bytes >= BODY_BUDGET then
  return {'again', refused}
end

do -- Nothing can be taken.
  local some = redis.call('EXISTS', parked) == 1 and SWEPT or SWEPT / 10
  if sweep_slots(some) and are_due() then
    return {'again', refused}
  end
  if redis.call('EXISTS', parked, flight, letters) == 0 then
    redis.call('HDEL', busy, '') -- no place is in use
  end
  local are_counts_stale = has_receives and redis.call('EXISTS', parked) == 0
-- include: sweep_stale

  local wait = next_event(backup, delayed, rules.each and turns or nil)
  return {'empty', refused, wait == 0 and 1 or wait, is_waiting and waiters(true) or nil}
end
