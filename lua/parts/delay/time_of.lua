-- Return the ready time in µs that a score in seconds means.
local function time_of(number)
  return math.floor(number * 1000000 + 0.5)
end
