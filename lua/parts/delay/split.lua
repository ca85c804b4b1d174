-- Split entries of the claim into ready times and message keys.
local function split(entries)
  local times, keys = {}, {}
  for i, entry in ipairs(entries) do
    local colon = string.find(entry, ':', 1, true) or 0
    times[i], keys[i] = string.sub(entry, 1, colon - 1), string.sub(entry, colon + 1)
  end
  return times, keys
end
