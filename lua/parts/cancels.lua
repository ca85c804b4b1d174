-- include: mark, canceled_notes
-- Needs receives, now.

local CANCELS_LAST = 604800000000 -- µs

-- Return what reads, uses up and writes the notes, given what is under CANCELS, and with the notes
-- for some ids.
local function open_cancels(head, known_ids)
  local since, ids = string.match(head or '', '^(%d+):(%d+)$')
  local cancels = {since = tonumber(since or now), ids = tonumber(ids or 0)}
  local lines_of, changed, fields = {}, {}, {}
  for i, id in ipairs(known_ids) do
    fields[i] = CANCELS .. ':' .. id
  end
  cancels.notes = redis.call('HMGET', receives, unpack(fields))

  -- Return the lines of an id's note that still count.
  function cancels.lines(id, note)
    if not lines_of[id] then
      local lines = {}
      for till, count, of in string.gmatch(note or '', '(%d+):(%d+):([^\n]+)') do
        local is_current = tonumber(till) >= cancels.since + CANCELS_LAST
        lines.is_counted = lines.is_counted or is_current
        if is_current and tonumber(till) > now then
          lines[#lines + 1] = {till, tonumber(count), of}
        end
      end
      lines_of[id] = lines
    end
    return lines_of[id]
  end

  function cancels.change(id)
    changed[id] = true
  end

  -- Return whether a message on a list is canceled, and use up its note.
  function cancels.use(id, body, note)
    local lines = cancels.lines(id, note)
    local of = #lines > 0 and mark(body)
    for i, line in ipairs(lines) do
      if line[3] == of then
        line[2] = line[2] - 1
        if line[2] == 0 then
          table.remove(lines, i)
        end
        changed[id] = true
        return true
      end
    end
    return false
  end

  -- Write the changed notes. After that, read no note: while the slot moves to another node, Redis
  -- refuses access to a key that a script has emptied.
  function cancels.write()
    if next(changed) == nil then
      return
    end
    for id in pairs(changed) do
      local lines, texts = lines_of[id], {}
      for i, line in ipairs(lines) do
        texts[i] = string.format('%s:%d:%s', line[1], line[2], line[3])
      end
      if #texts > 0 then
        redis.call('HSET', receives, CANCELS .. ':' .. id, table.concat(texts, '\n'))
      else
        redis.call('HDEL', receives, CANCELS .. ':' .. id)
      end
      cancels.ids = cancels.ids + (#texts > 0 and 1 or 0) - (lines.is_counted and 1 or 0)
    end
    if cancels.ids > 0 then
      local text = string.format('%.0f:%d', cancels.since, cancels.ids)
      redis.call('HSET', receives, CANCELS, text)
    else
      redis.call('HDEL', receives, CANCELS)
    end
  end

  return cancels
end
