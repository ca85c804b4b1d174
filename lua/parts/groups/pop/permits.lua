-- Rates: a group is charged once for each message that the call takes of it, and has no turn before
-- its rate permits one.

local charged = {} -- groups whose rate is written

-- Charge a group for a message that is taken.
local function take_permit(tag)
  if rules.each and tag ~= '' then
    ahead[tag], charged[tag] = ahead_of(tag) + rules.each, true
  end
end

local function write_permits()
  local spent, later = {}, {}
  for tag in pairs(charged) do
    spent[#spent + 1], spent[#spent + 2] = string.format('%.0f', now + math.ceil(ahead[tag])), tag
    local pause = pause_of(tag)
    if pause > 0 then
      later[#later + 1], later[#later + 2] = string.format('%.0f', now + pause), tag
    end
  end
  if #spent > 0 then
    redis.call('ZADD', rates, unpack(spent))
  end
  if #later > 0 then
    redis.call('ZADD', turns, 'XX', 'GT', unpack(later))
  end
end

-- Return whether it may be some group's turn.
local function are_due()
  if not rules.each then
    return redis.call('ZCARD', turns) > 0
  end
  local first = redis.call('ZRANGE', turns, '0', '0', 'WITHSCORES')
  return first[2] ~= nil and tonumber(first[2]) <= now + turned
end

-- Return whether a message of a group may be taken although others of it may be parked.
local function may_pass(tag)
  return is_free(tag) and (not rules.each
    or pause_of(tag) == 0 and not redis.call('ZSCORE', turns, tag))
end

-- Delete the entries of groups that may have their whole burst, and let groups look again whose
-- turn is later than any rate puts it.
local function renew_rates()
  local STEP = 1000000 -- µs by which a clock that is set back is not noticed
  local spent = redis.call('ZRANGEBYSCORE', rates, '-inf', now_text, 'LIMIT', '0', wanted + SWEPT)
  if #spent > 0 then
    redis.call('ZREM', rates, unpack(spent))
  end
  -- A group of the far future has waited there since before the clock was set back.
  local far = string.format('(%.0f', now + rules.each + STEP)
  for _, tag in ipairs(redis.call('ZRANGEBYSCORE', turns, far, '+inf', 'LIMIT', '0', SWEPT)) do
    redis.call('ZADD', turns, now_text, tag)
  end
end
