-- Messages moved aside: they get places behind all others of their group, or the place that they
-- had before. Places only grow.

local ASIDE_COSTS = 2 -- bytes that each byte moved aside counts as
local place = rules.place
-- Messages that this call moves aside: group -> id or false, body, id, body, ...; their groups in
-- order; and the groups that may have others in PARKED.
local aside, aside_tags, in_parked = {}, {}, {}

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
local function park_back(zset, key, body, tag, count, at)
  redis.call('ZREM', zset, key)
  forget(key)
  note_listed(key, body, count)
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

local function write_place()
  if place > rules.place then
    redis.call('HSET', record, 'place', string.format('%.0f', place))
  end
end
