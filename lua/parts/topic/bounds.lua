local function bounds(member)
  local start, stop = string.match(member, '^(%d+):(%d+):')
  return tonumber(start), tonumber(stop)
end
