-- Needs last_receive, taken.

-- A message on its last permitted receive is delivered alone, so that no other message is charged
-- if it kills its consumer.
local function must_wait(count)
  return count >= last_receive and taken > 0
end
