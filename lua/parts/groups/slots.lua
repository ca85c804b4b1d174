-- Needs busy, parked, turns, rules, now, woken_note, are_parked, pause_of.

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

local slots, altered, turned = {}, {}, 0 -- tag -> its messages in flight; those to write
local function slots_of(tag)
  slots[tag] = slots[tag] or tonumber(redis.call('HGET', busy, tag) or nil) or 0
  return slots[tag]
end

-- Read the slots of several groups at once.
local function know_slots(tags)
  for i, number in ipairs(redis.call('HMGET', busy, unpack(tags))) do
    local tag = tags[i]
    slots[tag] = slots[tag] or tonumber(number or nil) or 0
  end
end

local function add_slots(tag, number)
  slots[tag] = math.max(0, slots_of(tag) + number)
  altered[tag] = true
end

-- The group of the message that was moved to the list to wake a consumer, and since when it was
-- the group's turn.
local woken_since, woken_tag = string.match(woken_note,
  '^[^ ]* ([^ ]*) %d%d%d(.*)' .. string.rep('%d', PLACE) .. '$')

-- Messages without a group have no limit, and take their turn like a group. A group whose first
-- message is on the list waits for it.
local function is_free(tag)
  return tag ~= woken_tag and (tag == '' or slots_of(tag) < rules.limit)
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

local printed = {} -- of numbers: Redis prints each argument that is a number, which takes longer
local function write_slots()
  local taken, freed = {}, {}
  for tag in pairs(altered) do
    local number = slots[tag]
    if number > 0 then
      printed[number] = printed[number] or string.format('%.0f', number)
      taken[#taken + 1], taken[#taken + 2] = tag, printed[number]
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
