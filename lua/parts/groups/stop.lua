-- include: groups/slots
-- Needs turns, stopped, letters, rules, are_stopped.

-- Let a dead letter stop its group, if the record says so. It keeps its place there: rank.
local function stop(tag, rank, letter)
  if rules.stops and tag ~= '' then
    local others = redis.call('HGET', stopped, tag)
    redis.call('HSET', stopped, tag, others and others .. ' ' .. letter or letter)
    redis.call('HSET', letters, letter, rank .. tag)
    redis.call('ZREM', turns, tag)
    are_stopped, stops[tag] = true, true
  end
end
