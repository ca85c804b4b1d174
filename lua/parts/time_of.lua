-- Return the due time in µs that a score means.
local function time_of(number)
  return tonumber(number)
end
