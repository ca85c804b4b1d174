-- include: mark
-- Needs notes, has_notes, now.

-- NOTES says of messages on lists, or moved aside, under their mark, a colon and their id: since
-- when (µs), how often they were delivered, and how many of them are canceled, with spaces between.
-- Equal messages have one note. Under an empty field may be a time (µs) at which the lists were
-- empty: older notes are of messages that are gone.

-- Return what reads and changes these notes.
local function open_listed()
  local CANCELS_LAST = 604800000000 -- µs
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
      local since, count, canceled = string.match(found[i + 1] or '', '^(%d+) (%d+) (%d+)$')
      since = tonumber(since or 0)
      if since <= emptied then
        since, count, canceled = math.max(now, emptied + 1), 0, 0
      end
      known[field] = known[field] or {
        since = since, count = tonumber(count),
        canceled = now < since + CANCELS_LAST and tonumber(canceled) or 0,
      }
    end
  end

  -- Return the note of a message. What is changed in it has to be written.
  function listed.of(field)
    if not known[field] then
      listed.read({field})
    end
    return known[field]
  end

  -- Note a message that returns to a list, how often it was delivered, and when it is due.
  function listed.add(id, body, count, due)
    if count > 0 then
      local field = listed.field(id, body)
      local note = listed.of(field)
      note.count, note.since, changed[field] = count, math.max(note.since, due or 0), true
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
    local note = listed.of(field)
    began = math.max(began, emptied + 1)
    note.canceled = note.since == began and note.canceled + 1 or 1
    note.since, changed[field] = began, true
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
