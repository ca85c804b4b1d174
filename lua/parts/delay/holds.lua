-- Needs fenced.

-- A receipt is valid while it equals the lease, or while it is recorded for an extension to it. The
-- ready time must equal the lease too: otherwise another client touched the message, and it may be
-- a new one with the same key.
local function holds(first, receipt, key, lease, score)
  if fenced or not lease or math.floor(score * 1000000 + 0.5) ~= tonumber(lease) then
    return false
  end
  return tonumber(lease) == tonumber(receipt)
    or redis.call('HGET', KEYS[first + 3], key) == receipt .. ':' .. string.format('%.0f', lease)
end
