-- oldest: find out since when the oldest ready message has been ready.
--
-- KEYS[1] {name}           LIST    ready messages: pushed on the left, taken from the right
-- KEYS[2] {name}HANDOFF    LIST    front of the ready list: messages handed to a blocked consumer
-- KEYS[3] {name}BACKUP     ZSET    lease key -> deadline, µs since the epoch
-- KEYS[4] {name}DELAYED    ZSET    lease key -> due time, µs since the epoch
-- KEYS[5] {name}HELD       ZSET    held list -> µs from which its messages are the queue's
-- KEYS[6] {name}HELDROWS   HASH    held list -> messages in it
-- KEYS[7] {name}RECORD     HASH    the settings of the queue, see record.lua
-- With groups: KEYS[8] {name}GROUPS:PARKED ZSET messages moved aside, see groups/pop.lua
--
-- ARGV[1] pop_from         right|left   the end that is popped
-- ARGV[2] member           text         a body with a time has a JSON member of this name ...
-- ARGV[3] other            text         ... or of this one
--
-- Returns {now, since, listed, body}, times in µs since the epoch. since: when the first lease
-- ended, message was due, or lease of a claim ended, of those that are ready now; 0 if none is.
-- listed: 1 if a list has ready messages. Lists record no times, so body is the message that is
-- taken from them next: empty if it has none of the members, or more than 64 KiB. Neither do
-- released claims and committed lists, until a pop moves them: listed is 1 if only they are ready.
-- Messages that were moved aside come before those on the lists: since knows when that was, and
-- body is the one of them that waits longest, if it has a time; listed is 0 if it has none. If
-- they have 200 groups or more, or the first messages of these 1 MiB, it is not known: listed is 1,
-- and body empty.
-- Atomic because a message that moves between two places would be missed.
-- Cost: O(log in-flight + log delayed + held lists), and one body. Redis reports no element
-- lengths, so it is read whatever its length. With groups also O(200 log parked), and 1 MiB of
-- bodies plus one.
-- Roles: worker, viewer, operator, doctor
local ready, handoff, backup = KEYS[1], KEYS[2], KEYS[3]
local delayed, held, heldrows, record, parked = KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local pop_from, member, other = ARGV[1], ARGV[2], ARGV[3]

local MAX_BODY = 65536 -- bytes
local WALKED = 200 -- groups whose first messages are read
local BODY_BUDGET = 1048576 -- bytes of these
local PLACE = 16 -- digits of the time at which a message was moved aside

if (pop_from ~= 'right' and pop_from ~= 'left') or not other then
  return redis.error_reply('ACKQ_ARGUMENT oldest: an argument is out of range')
end

local known = parked and 'groups' or pop_from
-- include: record

-- include: now
local now_text = string.format('%.0f', now)
local since = math.huge

-- include: has

local function note(score)
  since = math.min(since, tonumber(score) or math.huge)
end

note(redis.call('ZRANGEBYSCORE', backup, '-inf', now_text, 'WITHSCORES', 'LIMIT', 0, 1)[2])
note(redis.call('ZRANGEBYSCORE', delayed, '-inf', now_text, 'WITHSCORES', 'LIMIT', 0, 1)[2])
redis.call('HLEN', heldrows)
local lists, untimed = redis.call('ZRANGEBYSCORE', held, '-inf', now_text, 'WITHSCORES'), false
for i = 1, #lists, 2 do
  if string.sub(lists[i], -8) ~= ':delayed'
    and tonumber(redis.call('HGET', heldrows, lists[i]) or 0) > 0 then
    if tonumber(lists[i + 1]) > 0 then
      note(lists[i + 1])
    else
      untimed = true
    end
  end
end

-- Return the message that was moved aside first, and when that was; nothing if there are too many
-- groups.
local function oldest_parked()
  local walked, bytes, from, time, first = 0, 0, '-', math.huge, nil
  while walked < WALKED and bytes < BODY_BUDGET do
    local entry = redis.call('ZRANGEBYLEX', parked, from, '+', 'LIMIT', '0', '1')[1]
    if not entry then
      return first, time
    end
    local place = 3 + tonumber(string.sub(entry, 1, 3))
    local at = tonumber(string.sub(entry, place + 1, place + PLACE))
    if at < time then
      time, first = at, string.sub(entry, place + PLACE + 1)
    end
    from = '[' .. string.sub(entry, 1, place) .. ':' -- behind this group
    walked, bytes = walked + 1, bytes + #entry
  end
end

local listed = redis.call('LLEN', handoff) + redis.call('LLEN', ready) > 0
local body = ''
if parked and redis.call('ZCARD', parked) > 0 then
  local first, time = oldest_parked()
  listed = true
  if first then
    note(time)
    body, listed = first, #first <= MAX_BODY and (has(first, member) or has(first, other))
  end
elseif listed then
  body = redis.call('LINDEX', handoff, -1)
    or redis.call('LINDEX', ready, pop_from == 'left' and 0 or -1)
end
if #body > MAX_BODY or not (has(body, member) or has(body, other)) then
  body = ''
end

if since == math.huge then
  since = 0
  listed = listed or untimed
end
return {now, since, listed and 1 or 0, body}
