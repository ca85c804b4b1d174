-- Rates: a group is charged once for each message that the call takes of it, and has no turn before
-- its rate permits one.

local ENDLESS = 9007199254740991 -- µs: the end of a pause until somebody ends it
local charged = {} -- groups whose rate is written

-- Charge a group for a message that is taken.
local function take_permit(tag)
  local each = rules_for(tag).each
  if each and tag ~= '' then
    ahead[tag], charged[tag] = ahead_of(tag) + each, true
  end
end

local function write_permits()
  local spent, later = {}, {}
  for tag in pairs(charged) do
    if ahead[tag] then
      spent[#spent + 1], spent[#spent + 2] = string.format('%.0f', now + math.ceil(ahead[tag])), tag
    end
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
  if not is_timed then
    return redis.call('ZCARD', turns) > 0
  end
  local first = redis.call('ZRANGE', turns, '0', '0', 'WITHSCORES')
  return first[2] ~= nil and tonumber(first[2]) <= now + turned
end

-- Return whether a message of a group may be taken although others of it may be parked.
local function may_pass(tag)
  return is_free(tag) and (not is_timed
    or pause_of(tag) == 0 and not redis.call('ZSCORE', turns, tag))
end

-- Delete the entries of groups that may have their whole burst, and pauses that are over. Let
-- groups look again whose turn is later than anything puts it.
local function renew_rates()
  local STEP = 1000000 -- µs by which a clock that is set back is not noticed
  for _, zset in ipairs({rates, pauses}) do
    local past = redis.call('ZRANGEBYSCORE', zset, '-inf', now_text, 'LIMIT', '0', wanted + SWEPT)
    if #past > 0 then
      redis.call('ZREM', zset, unpack(past))
    end
  end
  if are_apart and jitter % SAMPLED > 7 then
    return -- many groups may be paused
  end
  -- A group of the far future has waited there since before the clock was set back, unless it is
  -- paused or has a slower rate.
  local far = redis.call('ZRANGEBYSCORE', turns, string.format('(%.0f', now + (rules.each or 0)
    + STEP), string.format('(%.0f', ENDLESS), 'WITHSCORES', 'LIMIT', '0', SWEPT)
  for i = 1, #far, 2 do
    if now + pause_of(far[i]) + STEP < tonumber(far[i + 1]) then
      redis.call('ZADD', turns, now_text, far[i])
    end
  end
end
