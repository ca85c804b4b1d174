-- Return the id in a lease key, and what tells its message from others of the id: = if the key is
-- the id, or else the end of the key. Nothing if the message has no id.
local function id_in(key)
  if key ~= '' and string.byte(key) ~= 0 then
    return key, '='
  end
  return string.match(key, '^%z(.+)%z([%d:]+)$')
end
