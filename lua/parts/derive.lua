-- include: long_batch
-- Needs context, lease, derived.

-- Record the body under a derived key, because it has no id or another message has it.
local function derive(body, id)
  local key
  repeat
    derived = derived + 1
    if derived == LONG_BATCH then
      redis.call('HSET', context, LONG_KEY, '')
      redis.call('HDEL', context, LONG_KEY)
    end
    key = (id and '\0' .. id or '') .. '\0' .. lease .. string.format(':%04d', derived)
  until redis.call('HSETNX', context, key, body) == 1
  return key
end
