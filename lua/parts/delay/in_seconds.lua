local function in_seconds(microseconds)
  return string.format('%.6f', microseconds / 1000000)
end
