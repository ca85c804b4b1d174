-- include: outside

local MAX_FAILURE = 8192 -- bytes

-- Read the failures that follow the groups: for each position, the failure up to the next one.
local function read_failures(from, last)
  local found, position = {}, 1
  for i = from + 1, #ARGV, 2 do
    local to, failure = tonumber(ARGV[i]), ARGV[i + 1]
    if ARGV[from] ~= 'errors' or outside(to, position, last) or not failure
      or #failure > MAX_FAILURE or string.find(failure, '\n', 1, true) then
      return
    end
    for each = position, to do
      found[each] = failure ~= '' and failure or nil
    end
    position = to + 1
  end
  return found
end
