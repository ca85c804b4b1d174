-- include: mark

-- Return the recorded count of a message on the list.
local function listed_count(noted, body)
  local count, of = string.match(noted or '', '^(%d+):(%d+:%x+)')
  return count and of == mark(body) and tonumber(count) or 0
end
