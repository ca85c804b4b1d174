-- letters: find dead letters that stop a group, but no longer exist.
--
-- KEYS[1] {name}DEAD       STREAM  key, body, reason, count, time, errors of dead letters
-- KEYS[2] {name}          LIST    ready messages: pushed on the left, taken from the right
-- KEYS[3] {name}HANDOFF   LIST    front of the ready list: messages handed to a blocked consumer
-- KEYS[4] {name}HELD      STRING  the record of the groups, see groups/record.lua
-- KEYS[5] {name}WAITERS:LOOKS STRING  exists if a consumer has waited lately
-- KEYS[6] {name}GROUPS:BUSY HASH    group -> its messages in flight; see groups/pop.lua
-- KEYS[7] {name}GROUPS:PARKED ZSET    messages moved aside
-- KEYS[8] {name}GROUPS:TURNS ZSET    group that has parked messages and a free slot -> since, µs
-- KEYS[9] {name}GROUPS:FLIGHT HASH    lease key -> = or >, place, group
-- KEYS[10] {name}GROUPS:RUNS ZSET    messages of one group that one call delivered
-- KEYS[11] {name}GROUPS:WOKEN STRING  the message moved to the list to wake a consumer
-- KEYS[12] {name}GROUPS:RATES ZSET    group -> µs; see groups/pop.lua
-- KEYS[13] {name}GROUPS:ROOM LIST    not empty if a consumer may look again
-- KEYS[14] {name}GROUPS:STOPPED HASH    group -> ids of the dead letters that stop it
-- KEYS[15] {name}GROUPS:LETTERS HASH    id of such a dead letter -> place, group
--
-- ARGV[1] repair           0|1     1: let their groups go on
-- ARGV[2] pairs            1..100 pairs of a group, its name or \1 and its SHA1, and the id of a
--                          dead letter that stops it
--
-- Returns {pairs looked at, id, id, ...}: of those that something other than drop.lua and purge.lua
-- has deleted. Pass the other pairs in the next call.
-- Atomic because a redrive between two looks would seem to have lost a dead letter.
-- Cost: O(pairs log parked), 1 MiB of dead letters and one more. If a consumer waits, one parked
-- message moves.
-- Roles: operator, doctor
local dead = KEYS[1]
local ready, handoff, record, looks, busy = KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local parked, turns, flight, runs = KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local woken, rates, room = KEYS[11], KEYS[12], KEYS[13]
local stopped, letters = KEYS[14], KEYS[15]
local repair = ARGV[1] == '1'

local BODY_BUDGET = 1048576 -- bytes of dead letters one call may read

if (ARGV[1] ~= '0' and ARGV[1] ~= '1') or #ARGV < 3 or #ARGV > 201 or #ARGV % 2 == 0 then
  return redis.error_reply('ACKQ_ARGUMENT letters: repair is 0 or 1; then 1..100 pairs')
end
for at = 3, #ARGV, 2 do
  if not string.match(ARGV[at], '^%d+%-%d+$') then
    return redis.error_reply('ACKQ_ARGUMENT letters: an id is a stream id, such as 17-0')
  end
end

redis.call('XLEN', dead)
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
redis.call('HLEN', letters)

-- Parts: mark, groups/rates, groups/slots, groups/go_on, groups/wake
-- What ties a count on the list, a unique push or a note of failures to its body: another message
-- may have the same id.
local function mark(body)
  return #body .. ':' .. redis.sha1hex(string.sub(body, 1, 512) .. string.sub(body, -512))
end

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

-- Let a group go on without a dead letter that stopped it, once no other one does.
local function go_on(tag, letter)
  local others = {}
  for other in string.gmatch(redis.call('HGET', stopped, tag) or '', '[^ ]+') do
    others[#others + 1] = other ~= letter and other or nil
  end
  redis.call('HDEL', letters, letter)
  if #others > 0 then
    redis.call('HSET', stopped, tag, table.concat(others, ' '))
  else
    redis.call('HDEL', stopped, tag)
    stops[tag] = false
    turn(tag)
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
-- End of parts (edit them in lua/parts)

local reply, bytes = {0}, 0
while 2 * reply[1] + 2 < #ARGV and bytes < BODY_BUDGET do
  local tag, id = ARGV[2 * reply[1] + 2], ARGV[2 * reply[1] + 3]
  reply[1] = reply[1] + 1
  local entry = redis.call('XRANGE', dead, id, id)[1]
  for _, value in ipairs(entry and entry[2] or {}) do
    bytes = bytes + #value
  end
  if not entry and redis.call('HEXISTS', letters, id) == 1 then
    reply[#reply + 1] = id
    if repair then
      go_on(tag, id)
    end
  end
end
if repair and #reply > 1 then
  wake()
end
return reply
