-- include: natural_key
-- Needs wanted, HEAD.

local NAME = 16 -- bytes; looking at a field costs as much as decoding these

-- Return, without decoding it, whether a body may have a wanted id that is not in front, and how
-- many fields of this name were looked at.
local function names_wanted(body)
  local names, _, named = 0, string.find(body, '"id"', 1, true)
  while named do
    names = names + 1
    local id = string.match(body, '^%s*:%s*"([^"]*)"', named + 1)
    if not id or wanted[id] or string.find(id, '\\', 1, true) then
      return true, names
    end
    _, named = string.find(body, '"id"', named + 1, true)
  end
  return false, names
end

-- Return the lease key that pop would give to a body, if it is wanted.
local function wanted_key(body)
  local head = #body <= HEAD and body or string.sub(body, 1, HEAD)
  local id = string.match(head, '^{"id":%s?"([^"\\%c]+)"')
  if not id and #body <= MAX_DECODED then
    local is_named, names = names_wanted(body)
    if is_named then
      id = natural_key(body)
    else
      decoded = decoded + #body / 8
    end
    decoded = decoded + NAME * names
  end
  return id and wanted[id] and id
end
