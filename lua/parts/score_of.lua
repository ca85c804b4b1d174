-- Return the score of a due time in µs.
local function score_of(time)
  return string.format('%.0f', time)
end
