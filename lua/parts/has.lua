-- Return whether a JSON body may have a member of this name, somewhere.
local function has(body, name)
  return string.find(body, '"' .. name .. '"', 1, true)
end
