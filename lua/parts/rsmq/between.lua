local function between(number, low, high)
  return number and number >= low and number <= high and number
end
