-- Needs group, batch.

-- Answer a claim that found nothing. Its number is used up, so that a late copy of the call cannot
-- make a claim that nobody knows.
local function use_up()
  redis.call('HDEL', group, 'claiming')
  redis.call('HSET', group, 'last', string.format('%.0f', batch), 'bytes', '0')
  return {'empty'}
end
