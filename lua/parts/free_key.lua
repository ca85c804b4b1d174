-- Needs context.

local derived = 0

-- Return the lease key of a message for later: its id, if it has one that is no key of another
-- message, or else a derived key. ``is_taken``: another message of this call has the id.
local function free_key(id, ending, is_taken)
  if id and (id == '' or string.byte(id) == 0) then
    id = nil
  end
  local key = not is_taken and id
  while not key or redis.call('HEXISTS', context, key) == 1 do
    derived = derived + 1
    key = (id and '\0' .. id or '') .. '\0' .. ending .. string.format(':%04d', derived)
  end
  return key
end
