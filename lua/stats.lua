-- stats: count the messages of a queue by state, at one instant.
--
-- include: counted_keys
-- KEYS[6] {name}PAUSED     STRING  exists while the queue is paused
-- KEYS[7] {name}HELD       ZSET    held list -> µs from which its messages are the queue's
-- KEYS[8] {name}HELDROWS   HASH    held list -> messages in it
-- KEYS[9] {name}RECORD     HASH    the settings of the queue, see record.lua
-- With groups: KEYS[10] {name}GROUPS:PARKED ZSET messages moved aside, see groups/pop.lua
-- With groups: KEYS[11] {name}GROUPS:BUSY HASH group -> its messages in flight
-- With groups: KEYS[12] {name}GROUPS:TURNS ZSET group that has parked messages -> its turn, µs
-- With groups: KEYS[13] {name}GROUPS:STOPPED HASH group -> the dead letters that stop it
--
-- ARGV[1] pop_from         right|left   the end that is popped; default right
--
-- Returns {listed or moved aside, handed over, leased, expired, delayed, due, dead, paused 0|1,
-- µs until the next lease ends (negative: since it ended), µs until the next message is due,
-- claimed, returned, later, µs until the next held list belongs to the queue}; with groups also
-- {..., moved aside, groups with messages in flight, groups whose turn it is, groups whose turn is
-- later, stopped groups, µs since the first turn came}, the last 0 if none has come.
-- A time until is 0 if there is none. leased includes expired, delayed includes due. Of the
-- messages in held lists, claimed are still leased; the others belong to the queue: returned are
-- ready, and later will be delayed.
-- Atomic because a message that moves between two counts would be counted twice or not at all.
-- Cost: O(log in-flight + log delayed + held lists + log turns).
-- Roles: worker, monitor, watcher, viewer, operator, doctor
local ready, backup, handoff, delayed = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local dead, paused, held, heldrows = KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local record, parked, busy, turns, stopped = KEYS[9], KEYS[10], KEYS[11], KEYS[12], KEYS[13]
local pop_from = ARGV[1] or 'right'
local known = parked and 'groups' or pop_from

-- include: record

-- include: now
local now_text = string.format('%.0f', now)

local function until_first(zset)
  local first = redis.call('ZRANGE', zset, 0, 0, 'WITHSCORES')
  return first[2] and tonumber(first[2]) - now or 0
end

-- include: rows_of

redis.call('HLEN', heldrows)
local claimed, returned, later = all_rows(), 0, 0
local over = redis.call('ZRANGEBYSCORE', held, '-inf', now_text)
for i, rows in ipairs(rows_of(over)) do
  claimed = claimed - rows
  if string.sub(over[i], -8) == ':delayed' then
    later = later + rows
  else
    returned = returned + rows
  end
end

local reply = {
  redis.call('LLEN', ready) + (parked and redis.call('ZCARD', parked) or 0),
  redis.call('LLEN', handoff),
  redis.call('ZCARD', backup),
  redis.call('ZCOUNT', backup, '-inf', now_text),
  redis.call('ZCARD', delayed),
  redis.call('ZCOUNT', delayed, '-inf', now_text),
  redis.call('XLEN', dead),
  redis.call('EXISTS', paused),
  until_first(backup),
  until_first(delayed),
  claimed,
  returned,
  later,
  until_first(held),
}
if parked then
  local due = redis.call('ZCOUNT', turns, '-inf', now_text)
  reply[#reply + 1] = redis.call('ZCARD', parked)
  reply[#reply + 1] = redis.call('HLEN', busy)
  reply[#reply + 1] = due
  reply[#reply + 1] = redis.call('ZCARD', turns) - due
  reply[#reply + 1] = redis.call('HLEN', stopped)
  reply[#reply + 1] = math.max(0, -until_first(turns))
end
return reply
