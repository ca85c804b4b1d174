-- Needs context, receives, delayed, names.

-- Put a message into DELAYED until its time: wake_up moved it away to wake a consumer.
local function postpone(key, id, body, note)
  redis.call('HSET', context, key, body)
  redis.call('HSET', receives, key, note.count)
  redis.call('ZADD', delayed, string.format('%.0f', note.since), key)
  if names and id then
    names.change(id, mark(body), select(2, id_in(key)))
  end
end
