-- Return the score of a ready time: a time in µs, in seconds.
local function score_of(time)
  return string.format('%.6f', time / 1000000)
end
