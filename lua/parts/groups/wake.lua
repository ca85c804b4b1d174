-- include: mark, groups/slots
-- Needs ready, handoff, parked, turns, looks, woken.

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
