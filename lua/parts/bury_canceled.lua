-- include: dead_letter, failures, listed_count, free_id
-- Needs errors, has_errors, bytes.

-- Make a dead letter of a message that was on a list when an operator canceled it.
local function bury_canceled(id, body, noted)
  local count = listed_count(noted, body)
  local note = count > 0 and has_errors and redis.call('HGET', errors, id) or ''
  bytes = bytes + 4 * #note
  dead_letter(id, body, 'canceled', count, failures_of(note, body, count + 1), free_id(body, id))
  if count > 0 then
    redis.call('HDEL', errors, id)
    redis.call('HDEL', receives, id)
  end
end
