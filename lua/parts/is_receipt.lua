-- Needs extended, has_extended, lease.

-- A shortened lease ends before its receipt. A new lease may get exactly that deadline, but must
-- not have the same receipt. The next call gets another microsecond.
local function is_receipt(key)
  local note = has_extended and redis.call('HGET', extended, key)
  return note and string.find(note, lease .. ':', 1, true) == 1
end
