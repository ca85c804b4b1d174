-- include: groups/slots
-- Needs stopped, letters.

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
