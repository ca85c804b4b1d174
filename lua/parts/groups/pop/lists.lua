-- Lists: they are read in order. A message leaves them only if it is delivered, moved aside behind
-- those of its group, or made a dead letter.

local is_stopped = false -- the next message of the lists has to wait for the next call
local read_list
do
  local WITHOUT_ROOM = 100 -- of them while it has no room, so a busy group hides no other for ever

  -- Read the ids and groups of messages within the budget, and the slots of the groups. The group
  -- of a message that is too large is false, unless it stops its group when its turn comes.
  local function read_all(bodies)
    local ids, tags, named, is_named, number = {}, {}, {}, {}, #bodies
    for i = 1, number do
      local body, id, tag = bodies[number + 1 - i], nil, false
      if #body <= max_body or rules.stops then
        id, tag = read(body)
      end
      if decoded > DECODE_BUDGET then
        break
      end
      ids[i], tags[i] = id or false, tag
      if tag and not slots[tag] and not is_named[tag] then
        named[#named + 1], is_named[tag] = tag, true
      end
    end
    if #named > 0 then
      know_slots(named)
    end
    return ids, tags
  end

  -- Deliver the next message of a list or move it aside. Return whether it leaves the list.
  local function pass(body, id, tag, list)
    if woken_tag and string.match(woken_note, '^[^ ]*') == mark(body) then
      write_parks()
      redis.call('ZADD', parked, '0', string.match(woken_note, '^[^ ]* [^ ]* (.*)$') .. body)
      bytes, are_parked, in_parked[woken_tag] = bytes + ASIDE_COSTS * #body, true, true
      forget_woken()
      has_turns = are_due()
      serve_turns()
      return true
    elseif woken_tag and list == ready then
      write_parks()
      forget_woken() -- it would have been the first one here
      has_turns = are_due()
      serve_turns()
    end
    local passes = not tag or (not has_turns and may_pass(tag))
    if tag == nil or (passes and full and not is_served) then
      return false
    end
    looked = looked + 1
    if not tag or (passes and not full) then
      return lease_one(body, id, tag or '', rules.stops and next_place() or FIRST)
    end
    is_served = true
    park(body, tag, id)
    return true
  end

  -- Return how many messages of the lists the call may look at.
  local function may_look()
    if is_stopped or bytes >= BODY_BUDGET or dead_lettered >= DEAD_LETTER_BUDGET then
      return 0
    end
    return full and is_served and WITHOUT_ROOM or AT_GATE
  end

  -- Read a list in order. Its messages' lengths are known only after reading, so read 2, 4, 8, ...
  -- at a time while they are short, and one by one after one that was too large. If the first one
  -- that the call has no room for is of a busy group, it may hide others.
  function read_list(list)
    local slice = 2
    while looked < may_look() do
      local some = full and not is_served and 1 or math.min(slice, may_look() - looked)
      local bodies = redis.call('LRANGE', list, -some, -1)
      local ids, tags = read_all(bodies)
      local used, size, number, most = 0, 0, #bodies, may_look()
      while used < number and looked < most do
        local body = bodies[number - used]
        if not pass(body, ids[used + 1], tags[used + 1], list) then
          is_stopped = true -- messages behind it may be of the same group
          break
        end
        used, size = used + 1, size + #body
        if full or bytes >= BODY_BUDGET then
          most = may_look()
        end
      end
      redis.call('LTRIM', list, '0', -used - 1)
      if used < some then
        return
      end
      slice = size < used * SHORT and math.min(SLICE, 2 * some) or 1
    end
  end
end
