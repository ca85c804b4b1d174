-- include: dead_letter, failures
-- Needs errors, has_errors, names, bytes.

-- Make a dead letter of a message that was on a list when an operator canceled it.
local function bury_canceled(id, body, count)
  local note = count > 0 and has_errors and redis.call('HGET', errors, id) or ''
  bytes = bytes + 4 * #note
  local found = failures_of(note, body, count + 1)
  if #found > 0 then
    redis.call('HDEL', errors, id)
  end
  dead_letter(id, body, 'canceled', count, found, names and names.change(id, mark(body)))
end
