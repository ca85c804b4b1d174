-- include: groups/stop
-- Needs flight, rules.

-- Let the dead letters of messages that had these keys stop their groups, if the record says so.
local function stop_all(keys, dead_ids)
  if rules.stops then
    for i, entry in ipairs(redis.call('HMGET', flight, unpack(keys))) do
      if entry then
        stop(string.sub(entry, PLACE + 2), string.sub(entry, 2, PLACE + 1), dead_ids[i])
      end
    end
  end
end
