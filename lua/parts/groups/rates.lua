-- Needs rules, rates, now.

-- Return by how many µs a group is ahead of its rate: at most its burst, because otherwise it would
-- stand still for as long as a clock was set back.
local ahead = {}
local function ahead_of(tag)
  local till = not ahead[tag] and tonumber(redis.call('ZSCORE', rates, tag) or nil) or now
  ahead[tag] = ahead[tag] or math.min(rules.burst * rules.each, math.max(0, till - now))
  return ahead[tag]
end

-- Return the µs until the next message of a group may be taken: 0 if one may be.
local function pause_of(tag)
  if not rules.each or tag == '' then
    return 0
  end
  local free = (rules.burst - 1) * rules.each + 0.000001
  return math.max(0, math.ceil(ahead_of(tag) - free))
end
