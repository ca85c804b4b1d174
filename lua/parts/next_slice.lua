-- Needs BODY_BUDGET.

-- Return how many bodies to read next: those to come may be as large as the largest so far.
local function next_slice(slice, most, bytes, largest)
  return math.max(1, math.min(2 * slice, most, math.floor((BODY_BUDGET - bytes) / largest)))
end
