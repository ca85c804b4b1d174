local BODY_BUDGET = 1048576 -- bytes of bodies and errors
local MAX_IN_CALL = 100 -- dead letters one call may look at

-- Return whether the arguments from a place on are stream ids.
local function are_entries(from)
  for i = from, #ARGV do
    if not string.match(ARGV[i], '^%d+%-%d+$') then
      return false
    end
  end
  return true
end

-- Call ``use`` with the id and the fields of each dead letter of a stream that the arguments from a
-- place on name; if they name none, of a number of letters behind an id. Return how many were
-- looked at, and the id of the last one.
local function each_letter(stream, from, number, behind, use)
  local named, looked, bytes = #ARGV >= from, 0, 0
  local most = math.min(MAX_IN_CALL, named and #ARGV + 1 - from or number)
  while looked < most and bytes < BODY_BUDGET do
    -- Read one by one, because a body may have any length.
    local first = named and ARGV[from + looked] or behind == '' and '-' or '(' .. behind
    local entry = redis.call('XRANGE', stream, first, named and first or '+', 'COUNT', 1)[1]
    if not (entry or named) then
      break
    end
    looked = looked + 1
    if entry then
      local fields = {}
      for i = 1, #entry[2], 2 do
        fields[entry[2][i]] = entry[2][i + 1]
        bytes = bytes + #entry[2][i + 1]
      end
      use(entry[1], fields)
      behind = named and behind or entry[1]
    end
  end
  return looked, behind
end
