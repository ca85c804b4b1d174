-- include: groups/rates
-- Needs busy, parked, turns, stopped, rules, now, woken_note, are_parked, are_stopped.

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
local woken_since, woken_tag = string.match(woken_note or '',
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
  local own = are_apart and rules_for(tag) or rules
  return tag ~= woken_tag and (tag == '' or slots_of(tag) < own.limit and not has_stopped(tag))
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
