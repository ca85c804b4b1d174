-- Return whether a held list is a claim; the others were staged. Both names may contain the other
-- mark further on.
local function is_claim(name)
  local claim, staged = string.find(name, 'CLAIM:', 1, true), string.find(name, 'STAGED:', 1, true)
  return claim and (not staged or claim < staged)
end
