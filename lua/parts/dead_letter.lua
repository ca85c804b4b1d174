-- include: count_up, spend, write_letter
-- Needs dead, context, receives, extended, now, dead_lettered, full, DEAD_LETTER_BUDGET.

local function dead_letter(key, body, reason, count, found, unique)
  local id = write_letter(dead, {
    key = key, body = body, reason = reason, count = count, errors = found, is_unique = unique,
  })
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
