-- include: listed, names, failures, write_letter
-- Needs dead, errors, has_errors.

local listed, names = open_listed(), open_names()

-- Return what is known of a message that is on a list, or was moved aside from it.
local function listed_message(key, body)
  local field = listed.field(key, body)
  local count = listed.of(field).count
  local note = count > 0 and has_errors and redis.call('HGET', errors, key) or ''
  -- A pattern reads the note, which takes longer than moving it.
  return {key = key, body = body, field = field, count = count, note = note,
    cost = #body + 4 * #note}
end

-- Make a dead letter of it, which frees the id of a unique push.
local function bury_listed(message)
  local found = failures_of(message.note, message.body, message.count + 1)
  write_letter(dead, {
    key = message.key, body = message.body, reason = 'canceled', count = message.count,
    errors = found, is_unique = names.change(message.key, mark(message.body)),
  })
  if #found > 0 then
    redis.call('HDEL', errors, message.key)
  end
  listed.take(message.field)
end
