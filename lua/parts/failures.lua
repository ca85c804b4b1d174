-- include: mark

-- Return the failures of earlier deliveries of this very message, newest last. The note may be of
-- another message.
local function failures_of(note, body, before)
  local found = {}
  if note and string.match(note, '^[^\n]*') == mark(body) then
    for entry, attempt in string.gmatch(note, '\n((%d+):[^\n]*)') do
      if tonumber(attempt) >= before then
        return {} -- counts only grow, so these are of an earlier message
      end
      found[#found + 1] = entry
    end
  end
  return found
end

-- Return the last fields of a dead letter: its failures if there are any, and whether it is of a
-- unique push.
local function last_fields(found, unique)
  local fields = unique and {'unique', '1'} or {}
  if #found > 0 then
    fields[#fields + 1] = 'errors'
    fields[#fields + 1] = table.concat(found, '\n')
  end
  return fields
end
