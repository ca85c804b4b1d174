-- include: long_batch, note_take
-- Needs backup, receives.

-- Store the leases and the receive counts of the messages that a call takes.
local function write_leases(number, deadlines, counted)
  if number >= LONG_BATCH and redis.call('EXISTS', backup) == 0 then
    redis.call('ZADD', backup, '0', LONG_KEY)
  end
  redis.call('ZADD', backup, unpack(deadlines))
  note_take(deadlines[1])
  if number >= LONG_BATCH then
    redis.call('ZREM', backup, LONG_KEY)
  end
  if #counted > 0 then
    redis.call('HSET', receives, unpack(counted))
  end
end
