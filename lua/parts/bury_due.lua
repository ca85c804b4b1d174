-- include: dead_letter, failures, add_failure
-- Needs backup, errors, has_errors, names, bytes.

-- Make a dead letter of a message that is due, or whose lease has ended: it was delivered too
-- often, or has no body. Return its id in the stream.
local function bury_due(zset, key, body, count)
  local note = body and has_errors and redis.call('HGET', errors, key)
  local found = failures_of(note, body, count + 1)
  bytes = bytes + 4 * #(note or '') -- a pattern reads it, which takes longer than moving it
  if body and zset == backup then
    add_failure(found, count, '') -- no error is known: its lease ended
  end
  local unique = names and names.forget(key) and body
  local id = dead_letter(key, body or '', body and 'max receives' or 'body missing', count, found,
    unique)
  count_up('ended', zset == backup and 1 or 0)
  redis.call('ZREM', zset, key)
  redis.call('HDEL', errors, key)
  forget(key)
  return id
end
