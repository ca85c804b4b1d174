-- include: delay/count_up

-- End the delivery of a message, and forget what is known of it.
local function end_delivery(first, key)
  count_up(first, 'ended', redis.call('ZREM', KEYS[first + 2], key))
  redis.call('HDEL', KEYS[first + 3], key)
  redis.call('HDEL', KEYS[first + 4], key)
  redis.call('HDEL', KEYS[first + 7], key)
end
