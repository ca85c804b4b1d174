-- include: write_leases

-- Store the leases, slots, runs and counts of the messages in the reply.
local function write_deliveries()
  if taken > 0 then
    write_leases(taken, leases, recounted)
  end
  if #flights > 0 then
    -- The slots of earlier messages with these ids, which scripts without groups deleted.
    local stale = {}
    local entries = redis.call('HMGET', flight, unpack(entered))
    for i = 1, #entered do
      if entries[i] then
        stale[#stale + 1] = entered[i]
      end
    end
    if #stale > 0 then
      free(stale)
    end
    if taken >= LONG_BATCH and redis.call('EXISTS', flight) == 0 then
      redis.call('HSET', flight, LONG_KEY, '')
    end
    redis.call('HSET', flight, unpack(flights))
    if taken >= LONG_BATCH then
      redis.call('HDEL', flight, LONG_KEY)
    end
  end
  if #ran > 0 then
    local is_long = #ran >= 2 * LONG_BATCH and redis.call('EXISTS', runs) == 0
    redis.call('ZADD', runs, '0', is_long and LONG_KEY or ran[2], unpack(ran))
    if is_long then
      redis.call('ZREM', runs, LONG_KEY)
    end
  end
end
