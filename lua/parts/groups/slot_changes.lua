-- Needs busy, slots, slots_of.

local altered = {} -- groups whose number of messages in flight has to be written

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
