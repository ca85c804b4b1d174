-- include: groups/slots
-- Needs stopped, letters.

local ended, ended_of = {}, {} -- groups in the order found; group -> ids of dead letters

-- Note that a dead letter no longer stops its group.
local function end_stop(tag, letter)
  if not ended_of[tag] then
    ended[#ended + 1], ended_of[tag] = tag, {}
  end
  ended_of[tag][letter] = true
  redis.call('HDEL', letters, letter)
end

-- Let these groups go on, once no other dead letter stops them. One group may have many, so each
-- list of them is read and written once.
local function go_on()
  for _, tag in ipairs(ended) do
    local others = {}
    for other in string.gmatch(redis.call('HGET', stopped, tag) or '', '[^ ]+') do
      others[#others + 1] = not ended_of[tag][other] and other or nil
    end
    if #others > 0 then
      redis.call('HSET', stopped, tag, table.concat(others, ' '))
    else
      redis.call('HDEL', stopped, tag)
      stops[tag] = false
      turn(tag)
    end
  end
end
