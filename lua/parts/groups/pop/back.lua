-- Redelivery: a message that is due, or whose lease has ended, is delivered, deferred, moved aside
-- or made a dead letter; or it stays where it is, for the next call.

-- Return whether a message that comes back, with this place, returns to it: its group is stopped,
-- or the dead letter that stopped it was redriven.
local function goes_home(tag, at)
  if not rules.stops or tag == '' then
    return false
  end
  local head = head_of(tag)
  return has_stopped(tag) or rules_for(tag).limit == 1
    and redis.call('ZLEXCOUNT', parked, '[' .. head, '(' .. head .. at) > 0
end

-- Move a message aside that is due, or whose lease has ended: to the place that it has, or behind
-- those of its group if it has none and no slot, since it was pushed for later, redriven, or taken
-- before the queue had groups.
local function park_back(zset, key, body, tag, count, at)
  redis.call('ZREM', zset, key)
  forget(key)
  note_listed(key, body, count)
  if string.byte(key) == 0 or count == 0 then
    redis.call('HDEL', errors, key)
  end
  count_up(at and 'returned' or 'ended', zset == backup and 1 or 0)
  if at then
    redis.call('ZADD', parked, '0', head_of(tag) .. at .. body)
    bytes, are_parked, in_parked[tag] = bytes + ASIDE_COSTS * #body, true, true
    gone[#gone + 1], has_taken[key] = key, true
  else
    park(body, tag)
  end
  full = full or bytes >= BODY_BUDGET
end

local LOOKS_AGAIN = 5000000 -- µs after which a message asks again whether its group is paused
local RECOVERED = 200 -- messages that came back, of each kind, in one call
local queued = {} -- group -> its messages that wait for its rate now

-- Lease expired or due messages in place. An absent count is 1 in BACKUP, 0 in DELAYED.
local function take_back(zset, keys, absent)
  local known = has_receives and #keys > 0 and redis.call('HMGET', receives, unpack(keys)) or {}
  local entries = #keys > 0 and redis.call('HMGET', flight, unpack(keys)) or {}
  for i = 1, #keys do
    if full or looked >= RECOVERED then
      return
    end
    looked = looked + 1
    -- Read one by one, because a body may have any length.
    local key, entry, body = keys[i], entries[i], redis.call('HGET', context, keys[i])
    local count = 1 + (tonumber(known[i]) or absent)
    local tag = entry and string.sub(entry, PLACE + 2) or ''
    local at = entry and string.sub(entry, 2, PLACE + 1) or FIRST
    local is_dead = max_receives > 0 and count > max_receives
    local is_home = entry and body and not is_dead and goes_home(tag, at)
    local till = has_runs and entry and body and not is_home and waits_until(key, tag)
    if body and not entry then
      tag = select(2, read(body))
    end
    if decoded > DECODE_BUDGET then
      full = true
    elseif not body then
      stop(tag, at, bury_due(zset, key, body, count - 1))
      gone[#gone + 1], has_taken[key] = key, true
    elseif is_home then
      park_back(zset, key, body, tag, count - 1, at)
    elseif till then
      defer(zset, key, '>' .. string.sub(entry, 2), count - 1, till)
    elseif is_dead then
      stop(tag, at, bury_due(zset, key, body, count - 1))
      gone[#gone + 1], has_taken[key] = key, true
    elseif must_wait(count) or is_receipt(key) then
      full = true
    elseif entry and pause_of(tag) > 0 then
      -- The next one that waits gets the permit after this one.
      local before = queued[tag] or 0
      queued[tag], charged[tag] = before + 1, true
      local pause = are_apart and math.min(pause_of(tag), LOOKS_AGAIN) or pause_of(tag)
      defer(zset, key, '=' .. string.sub(entry, 2), count - 1,
        now + pause + math.ceil(before * (rules_for(tag).each or 1)))
    elseif not entry and tag ~= '' and (has_turns or not may_pass(tag)) then
      park_back(zset, key, body, tag, count - 1)
    else
      if not entry then
        at = rules.stops and next_place() or at
        enter(key, tag, at)
      elseif string.byte(entry) == 62 then -- >
        redis.call('HSET', flight, key, '=' .. string.sub(entry, 2))
      end
      take_over(zset, key, count)
      deliver(key, body, count, tag, at)
      in_parked[tag] = true
      follow(tag)
    end
  end
end

-- Take back messages until there are none, or the call has enough.
function take_all_due(zset, absent)
  looked = 0
  repeat
    local before = looked
    -- The messages taken so far keep their old scores in BACKUP until the end: pass over them.
    take_back(zset, redis.call('ZRANGEBYSCORE', zset, '-inf', now_text, 'LIMIT',
      zset == backup and taken or 0, math.min(math.max(1, wanted - taken), RECOVERED)), absent)
  until full or looked == before or looked >= RECOVERED
  full = full or looked >= RECOVERED -- the rest of them comes before what waits
  looked = 0
end
