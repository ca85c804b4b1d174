-- Needs delayed, extended, has_extended, returned, counts, recounted.

-- Lease a message again that is due, or whose lease has ended.
local function take_over(zset, key, count)
  if zset == delayed then
    redis.call('ZREM', delayed, key)
  else
    returned = returned + 1
  end
  if has_extended then
    redis.call('HDEL', extended, key)
  end
  if count > 1 then
    recounted[#recounted + 1], recounted[#recounted + 2] = key, count
  end
  counts[#counts + 1] = count
end
