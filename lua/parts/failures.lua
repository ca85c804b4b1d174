-- What ties a count on the list, or a note of failures, to its body: another message may have the
-- same id.
local function mark(body)
  return #body .. ':' .. redis.sha1hex(string.sub(body, 1, 512) .. string.sub(body, -512))
end

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

-- Return the last field of a dead letter; none without failures.
local function errors_field(found)
  return #found > 0 and {'errors', table.concat(found, '\n')} or {}
end
