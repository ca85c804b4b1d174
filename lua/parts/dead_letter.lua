-- include: count_up, spend, failures
-- Needs dead, context, receives, extended, now_text, dead_lettered, full, DEAD_LETTER_BUDGET.

local function dead_letter(key, body, reason, count, found, unique)
  local id = redis.call('XADD', dead, '*', 'key', key, 'body', body, 'reason', reason,
    'count', count, 'time', now_text, unpack(last_fields(found, unique)))
  count_up('dead:' .. reason, 1)
  dead_lettered = dead_lettered + 1
  spend(body)
  full = full or dead_lettered >= DEAD_LETTER_BUDGET
  return id
end

local function forget(key)
  redis.call('HDEL', context, key)
  redis.call('HDEL', receives, key)
  redis.call('HDEL', extended, key)
end
