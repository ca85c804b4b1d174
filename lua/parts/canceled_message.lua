-- include: mark, failures, unique_notes, noted_mark, write_letter
-- Needs receives, dead, errors, has_errors, now.

-- Return what is known of a message that is on a list, or was moved aside from it.
local function listed_message(key, body)
  local noted, of = redis.call('HGET', receives, key), mark(body)
  local count, whose = string.match(noted or '', '^(%d+):(%d+:%x+)')
  local is_own = whose == of
  count = is_own and tonumber(count) or 0
  local note = count > 0 and has_errors and redis.call('HGET', errors, key) or ''
  local is_taken = noted_mark(redis.call('HGET', receives, TAKEN .. key)) == of
  return {
    key = key, body = body, count = count, note = note, is_own = is_own, is_taken = is_taken,
    is_unique = is_taken or (is_own and noted_mark(noted) ~= nil),
    cost = #body + 4 * #note, -- a pattern reads it, which takes longer than moving it
  }
end

-- Make a dead letter of it, which frees the id of a unique push.
local function dead_letter(message)
  write_letter(dead, {
    key = message.key, body = message.body, reason = 'canceled', count = message.count,
    errors = failures_of(message.note, message.body, message.count + 1),
    is_unique = message.is_unique,
  })
  if message.count > 0 then
    redis.call('HDEL', errors, message.key)
  end
  if message.is_own then
    redis.call('HDEL', receives, message.key)
  end
  if message.is_taken then
    redis.call('HDEL', receives, TAKEN .. message.key)
  end
end
