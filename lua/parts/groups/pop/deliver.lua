-- Deliveries: a message in the reply has a lease and, with a group, a slot. If only one message of
-- the group may be in flight and the call delivers several, all of them are in RUNS.

local RUN = 100 -- messages of one group in a run
local FIRST = string.rep('0', 16) -- the place of a message that was never parked
local counts, leases, recounted, entered, flights, ran = reply[4], {}, {}, {}, {}, {}
-- For groups that may have one message in flight: how many messages this call takes if that is more
-- than one; and the groups that may have further ones, in the order found.
local mine, followed = {}, {}
local deliver, follow
do
  -- Where in the reply the first message of a group is that this call takes, and its place.
  local first_at, first_place, is_followed = {}, {}, {}

  function deliver(key, body, count, tag, at)
    local last = 2 * taken
    leases[last + 1], leases[last + 2] = lease, key
    reply[last + 5], reply[last + 6] = key, body
    has_taken[key], taken, bytes = true, taken + 1, bytes + #body
    full = full or taken >= wanted or bytes >= BODY_BUDGET or count >= last_receive
    if is_timed then
      take_permit(tag)
    end
    if (are_apart and rules_for(tag) or rules).limit > 1 or tag == '' then
      return
    elseif not first_at[tag] then
      first_at[tag] = last + 5
      if at ~= FIRST then
        first_place[tag] = at
      end
      return
    elseif not mine[tag] then
      mine[tag] = 1
      ran[#ran + 1], ran[#ran + 2] = '0',
        head_of(tag) .. (first_place[tag] or FIRST) .. reply[first_at[tag]]
    end
    ran[#ran + 1], ran[#ran + 2] = '0', head_of(tag) .. at .. key
    mine[tag] = mine[tag] + 1
  end

  -- The group of a message that this call takes may have others that are moved aside.
  function follow(tag)
    if first_at[tag] and not is_followed[tag] then
      followed[#followed + 1], is_followed[tag] = tag, true
    end
  end
end

-- Give a message a slot of its group.
local function enter(key, tag, at)
  if tag ~= '' then
    local number = #entered + 1
    entered[number], flights[2 * number - 1], flights[2 * number] = key, key, '=' .. at .. tag
    add_slots(tag, 1)
  end
end
