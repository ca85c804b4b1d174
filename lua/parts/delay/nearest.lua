-- When the next message is ready, in s. A message with an earlier time wakes a waiting consumer.
local function nearest(zset)
  return tonumber(redis.call('ZRANGE', zset, 0, 0, 'WITHSCORES')[2] or math.huge)
end
