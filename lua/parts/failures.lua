-- include: mark

-- Return the failures of earlier deliveries of this very message, newest last. The note may be of
-- another message. That of this delivery, which alone.lua wrote in advance, is left out.
local function failures_of(note, body, before)
  local found = {}
  if note and string.match(note, '^[^\n]*') == mark(body) then
    for entry, attempt in string.gmatch(note, '\n((%d+):[^\n]*)') do
      if tonumber(attempt) > before then
        return {} -- counts only grow, so these are of an earlier message
      end
      found[#found + 1] = tonumber(attempt) < before and entry or nil
    end
  end
  return found
end
