-- include: keep_latest
-- Needs now, in µs.

-- Add the failure of one delivery; the oldest go.
local function add_failure(found, count, failure)
  found[#found + 1] = string.format('%.0f:%.0f:', count, now) .. failure
  keep_latest(found)
end
