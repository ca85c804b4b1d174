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

local function write_place()
  if place > rules.place then
    redis.call('HSET', record, 'place', string.format('%.0f', place))
  end
end
