-- Long runs: further messages of a group are delivered, in order, as long as this call has all that
-- are in flight.

-- Deliver further messages of the groups that this call alone has, in order: one consumer may work
-- on several messages of a group. The lengths of those in PARKED are known only after reading: see
-- read_list.
local function extend_runs()
  -- Deliver up to a number of the messages of a group that are parked. Return how many.
  local function extend_parked(tag, most)
    local members, used = first_of(parked, tag, most), 0
    while used < #members and not full and pause_of(tag) == 0 and not has_stopped(tag)
      and take_parked(members[used + 1], tag) do
      used = used + 1
    end
    if used > 0 then
      redis.call('ZREM', parked, unpack(members, 1, used))
    end
    return used, #(members[used] or '')
  end

  -- Deliver up to a number of the messages of a group that this call has moved aside, behind the
  -- first ``used``. Return how many.
  local function extend_aside(tag, most, used)
    local messages, last = aside[tag] or {}, 2 * used
    while most > 0 and messages[last + 2] and not full and pause_of(tag) == 0
      and not has_stopped(tag) do
      local body = messages[last + 2]
      bytes = bytes - ASIDE_COSTS * #body
      if not lease_one(body, messages[last + 1] or nil, tag, next_place()) then
        break
      end
      last, most = last + 2, most - 1
    end
    return last / 2 - used
  end

  local used, slices = {}, {}
  while not full and #followed > 0 do
    local tags = followed
    local share = math.max(1, math.floor((wanted - taken) / #tags))
    followed = {}
    for _, tag in ipairs(tags) do
      local has = mine[tag] or 1
      local is_mine = slots_of(tag) == has and not has_stopped(tag)
      local most = is_mine and math.min(share, RUN - has) or 0
      local is_done = most == 0 or full
      if not is_done and in_parked[tag] then
        local slice = math.min(most, slices[tag] or 1)
        local got, size = extend_parked(tag, slice)
        slices[tag] = size < SHORT and math.min(SLICE / 4, 2 * slice) or 1
        in_parked[tag] = got == slice -- if not, those that this call has moved aside are next
      elseif not is_done then
        local got = extend_aside(tag, most, used[tag] or 0)
        used[tag], is_done = (used[tag] or 0) + got, got == 0
      end
      if not is_done then
        followed[#followed + 1] = tag
      end
    end
  end
  write_parks(used)
end
