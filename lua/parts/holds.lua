-- Needs extended, has_extended.

-- A receipt is valid while it equals the score, or while EXTENDED ties it to that score.
local function holds(receipt, key, score)
  if not score then
    return false
  end
  return tonumber(score) == tonumber(receipt) or (has_extended
    and redis.call('HGET', extended, key) == receipt .. ':' .. string.format('%.0f', score))
end
