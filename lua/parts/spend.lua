-- Needs bytes, full, BODY_BUDGET.

local function spend(body)
  bytes = bytes + #body
  full = full or bytes >= BODY_BUDGET
end
