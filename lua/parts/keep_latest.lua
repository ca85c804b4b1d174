local FAILURES = 5 -- failures kept of a message, the latest

-- Drop the oldest failures of a message.
local function keep_latest(found)
  while #found > FAILURES do
    table.remove(found, 1)
  end
end
