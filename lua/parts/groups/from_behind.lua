-- Needs PLACE.

-- Return where a range of PARKED begins that leaves out this place and those before it. Bodies
-- follow the place, and no two messages have the same one.
local function from_behind(place)
  return '[' .. string.sub(place, 1, -PLACE - 1)
    .. string.format('%016.0f', string.sub(place, -PLACE) + 1)
end
