-- include: groups/slots
-- Needs busy.

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
