-- include: groups/rules
-- Needs rules, rates, limits, pauses, are_apart, now.

-- Return the rules of a group: those of all, or its own limits and the end of its pause.
local apart = {}
local function rules_for(tag)
  if not are_apart or tag == '' then
    return rules
  elseif not apart[tag] then
    local limit, rate = string.match(redis.call('HGET', limits, tag) or '', '^(%d+) (.+)$')
    local own = rules_of({limit ~= '0' and limit or rules.limit, rate})
    if not own.each then
      own.each, own.burst = rules.each, rules.burst
    end
    own.till = tonumber(redis.call('ZSCORE', pauses, tag) or nil)
    apart[tag] = own
  end
  return apart[tag]
end

-- Return by how many µs a group is ahead of its rate: at most its burst, because otherwise it would
-- stand still for as long as a clock was set back.
local ahead = {}
local function ahead_of(tag)
  local till = not ahead[tag] and tonumber(redis.call('ZSCORE', rates, tag) or nil) or now
  local own = rules_for(tag)
  ahead[tag] = ahead[tag] or math.min(own.burst * own.each, math.max(0, till - now))
  return ahead[tag]
end

-- Return the µs until the next message of a group may be taken: 0 if one may be.
local function pause_of(tag)
  if tag == '' or not (rules.each or are_apart) then
    return 0
  end
  local own = rules_for(tag)
  local pause = (own.till or now) - now
  if own.each then
    local free = (own.burst - 1) * own.each + 0.000001
    pause = math.max(pause, math.ceil(ahead_of(tag) - free))
  end
  return math.max(0, pause)
end
