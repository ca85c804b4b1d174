-- Needs next_slice and what it needs.

local MAX_IN_CALL = 2000 -- messages of a list one call may look at
local PASSED = 5000000 -- messages of a list that Redis may pass over to reach those that are read
local LONG = 256 -- bytes: more take longer to pass over, up to 8 KiB, which fill a node of the list
local SLICE = 16 -- bodies read at a time
local DEEP, DEEP_SLICE = 20000, 64 -- so far from both ends, each slice takes Redis long to reach

-- Walk over a list towards the end that is taken. Call ``look`` with each body and with how many
-- messages are taken before it, until the budget is spent. It returns what the message costs in
-- bytes, or nothing if the message must wait for the next call. Return how many messages are left
-- and how long the list is.
local function walk(list, from_right, start, look)
  local size = redis.call('LLEN', list)
  local left, bytes, looked, passed, slice, largest = math.min(start, size), 0, 0, 0, 1, 1
  while left > 0 and looked < MAX_IN_CALL and bytes < BODY_BUDGET and passed < PASSED do
    local some, distance = math.min(slice, left), math.min(left, size - left)
    local first = from_right and -left or left - some
    local bodies = redis.call('LRANGE', list, string.format('%.0f', first),
      string.format('%.0f', first + some - 1))
    for i = 1, some do
      local cost = look(bodies[from_right and i or some + 1 - i], left - 1)
      if not cost then
        return left, size
      end
      left, bytes, looked = left - 1, bytes + cost, looked + 1
      largest = math.max(largest, cost)
    end
    passed = passed + distance * math.max(1, math.min(bytes / looked, 32 * LONG) / LONG)
    slice = next_slice(slice, distance > DEEP and DEEP_SLICE or SLICE, bytes, largest)
  end
  return left, size
end
