local function outside(number, low, high)
  return not (number and number >= low and number <= high and number % 1 == 0)
end
