-- include: mark
-- Needs notes, has_notes, now.

-- NOTES says of messages on lists, or moved aside, under their mark, a colon and their id: since
-- when (µs), how often they were delivered, and how many of them are canceled, with spaces between.
-- Equal messages have one note. Under an empty field may be a time (µs) at which the lists were
-- empty: older notes are of messages that are gone.

-- Return what reads and changes these notes.
local function open_listed()
  local CANCELS_LAST = 604800000000 -- µs
  local NOTHING = {since = 0, count = 0, canceled = 0} -- what is noted of most messages
  local listed, known, changed, emptied = {}, {}, {}, nil

  -- Return the field of a message.
  function listed.field(id, body)
    return mark(body) .. ':' .. id
  end

  -- Read the notes of some messages at once.
  function listed.read(fields)
    local found = has_notes and redis.call('HMGET', notes, '', unpack(fields)) or {}
    emptied = tonumber(found[1] or 0)
    for i, field in ipairs(fields) do
      local note, text = known[field] or NOTHING, found[i + 1]
      if text and note == NOTHING then
        local since, count, canceled = string.match(text, '^(%d+) (%d+) (%d+)$')
        since = tonumber(since or 0)
        note = since > emptied and {
          since = since, count = tonumber(count),
          canceled = now < since + CANCELS_LAST and tonumber(canceled) or 0,
        } or NOTHING
      end
      known[field] = note
    end
  end

  -- Return the note of a message.
  function listed.of(field)
    if not known[field] then
      listed.read({field})
    end
    return known[field]
  end

  -- Return the note of a message to change it.
  local function changing(field)
    if listed.of(field) == NOTHING then
      known[field] = {since = math.max(now, emptied + 1), count = 0, canceled = 0}
    end
    changed[field] = true
    return known[field]
  end

  -- Note a message that returns to a list, how often it was delivered, and when it is due.
  function listed.add(id, body, count, due)
    if count > 0 then
      local note = changing(listed.field(id, body))
      note.count, note.since = count, math.max(note.since, due or 0)
    end
  end

  -- Take a message off its note: it leaves the list. Return its count, and whether it is canceled.
  function listed.take(field)
    local note = listed.of(field)
    local count, canceled = note.count, note.canceled
    if count + canceled > 0 then
      note.count, note.canceled = 0, math.max(0, canceled - 1)
      changed[field] = true
    end
    return count, canceled > 0
  end

  -- Note that one more of these messages is canceled, by a cancel that began at a time. Another
  -- cancel counts again from zero. Return when the cancel began.
  function listed.cancel(field, began)
    local note = changing(field)
    began = math.max(began, emptied + 1)
    note.canceled = note.since == began and note.canceled + 1 or 1
    note.since = began
    return began
  end

  -- Write what was changed.
  function listed.write()
    for field in pairs(changed) do
      local note = known[field]
      if note.count + note.canceled > 0 then
        redis.call('HSET', notes, field,
          string.format('%.0f %d %d', note.since, note.count, note.canceled))
      else
        redis.call('HDEL', notes, field)
      end
    end
    changed = {}
  end

  return listed
end
