-- include: notes
-- Needs context, receives, delayed, ready, handoff, looks, now, and the keys of groups.

-- Consumers wait for a push onto the list. So if the lists are empty and a consumer has waited
-- lately, move a message there that is in DELAYED, the last of those that a call makes ready: a pop
-- takes those that are due first. If it is not due, that pop puts it back into DELAYED, and the
-- consumer knows until when to wait. A message with a slot of its group is moved aside, unless the
-- group may have a run. Return whether it was: then free the slot, and it is its group's turn.
local function wake_up(key, count, due)
  local SOON = 1500000 -- µs of delay during which a consumer that waits may not look again
  local is_soon = due <= now or count > 0 and due <= now + SOON -- the note of a count says when
  -- The fake Redis of a unit test has no sha1hex, so it cannot note a message on the list.
  if not is_soon or string.byte(key) == 0 or not redis.sha1hex
    or redis.call('EXISTS', ready, handoff) > 0 or redis.call('EXISTS', looks) == 0 then
    return false
  end
  local entry = busy and redis.call('HGET', flight, key)
  local body = not (entry and redis.call('EXISTS', runs) == 1) and redis.call('HGET', context, key)
  if not body then
    return false
  end
  -- Write the copy first and delete the original last, so that the message always exists.
  if entry then
    local tag, place = string.sub(entry, 18), string.sub(entry, 2, 17)
    redis.call('ZADD', parked, '0', string.format('%03d', #tag) .. tag .. place .. body)
    are_parked = true
  else
    redis.call('RPUSH', ready, body) -- an operator has no right to LPUSH
  end
  redis.call('ZREM', delayed, key)
  redis.call('HDEL', context, key)
  if count > 0 then
    redis.call('HDEL', receives, key)
  end
  note_listed(key, body, count, due)
  return entry and true
end
