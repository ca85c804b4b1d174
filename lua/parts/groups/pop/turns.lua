-- Turns: of the groups that have parked messages and a free slot, the least recently served one is
-- served first.

-- Take a parked message. Return whether it was taken or became a dead letter, and has to leave.
local function take_parked(member, tag)
  local at = #head_of(tag) + PLACE
  local body = string.sub(member, at + 1)
  local id = #body <= max_body and read(body) or nil
  bytes = bytes + (ASIDE_COSTS - 1) * #body
  if decoded > DECODE_BUDGET then
    full = true
  end
  return not full and lease_one(body, id, tag, string.sub(member, at - PLACE + 1, at))
end

-- Deliver the first message of each group whose turn it is, the least recently served first. If it
-- is the turn of a group whose message was moved to the list, the list has to be read first.
local served, is_served = 0, false
local function serve_turns()
  local SERVED = 200 -- messages whose turn it is, in one call, before it looks at the lists
  local is_over = not has_turns
  while not (is_over or full) do
    write_parks()
    local some = math.min(SLICE, wanted - taken, SERVED - served)
    local due = redis.call('ZRANGE', turns, '0', some - 1, 'WITHSCORES')
    local tags, members, passed = {}, {}, 0
    for i = 1, #due, 2 do
      tags[#tags + 1] = due[i]
    end
    know_slots(tags)
    for i, tag in ipairs(tags) do
      local pause, since = pause_of(tag), tonumber(due[2 * i])
      is_over = full or woken_tag and tonumber(woken_since) <= since or pause > 0 and since > now
      if pause > 0 then
        charged[tag] = true -- the clock may have been set back
      end
      local member = not is_over and pause == 0 and is_free(tag) and first_of(parked, tag, 1)[1]
      if is_over or member and not take_parked(member, tag) then
        break
      end
      members[#members + 1], in_parked[tag], passed = member or nil, true, i
      follow(tag)
    end
    if #members > 0 then
      redis.call('ZREM', parked, unpack(members))
    end
    if passed > 0 then
      redis.call('ZREM', turns, unpack(tags, 1, passed)) -- a group that stopped has left already
    end
    for i = 1, passed do
      if is_free(tags[i]) then
        turn(tags[i])
      end
    end
    served, is_served = served + passed, is_served or passed > 0
    full = full or served >= SERVED
    has_turns = are_due()
    is_over = is_over or not has_turns
  end
end
