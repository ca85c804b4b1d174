-- include: canceled_notes
-- Needs context, receives, errors, has_errors, SWEPT.

-- Both lists are empty, so their counts are stale, unless messages may come back to them. A note of
-- failures is stale if its message has no count. Remove some of both at each call.
local function sweep_stale(are_counts_stale)
  local noted = are_counts_stale and redis.call('HRANDFIELD', receives, SWEPT, 'WITHVALUES') or {}
  for i = 1, #noted, 2 do
    if string.find(noted[i + 1], ':', 1, true)
      and redis.call('HEXISTS', context, noted[i]) == 0 then
      redis.call('HDEL', receives, noted[i])
    end
    if string.find(noted[i], CANCELS, 1, true) == 1 then
      redis.call('HDEL', receives, CANCELS) -- no note of a canceled message counts any more
    end
  end
  local keys = has_errors and redis.call('HRANDFIELD', errors, SWEPT) or {}
  local known = #keys > 0 and redis.call('HMGET', receives, unpack(keys)) or {}
  for i = 1, #keys do
    if not known[i] then
      redis.call('HDEL', errors, keys[i])
    end
  end
end
