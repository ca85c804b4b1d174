-- include: is_put_back, postpone

-- Leases: a message that leaves a list or PARKED is leased, or a dead letter.

local lease_one
do
  -- Record a message under its id. Return whether that is free, or has what the article left of it.
  local function has_recorded(id, body)
    return redis.call('HSETNX', context, id, body) == 1
      or (not has_taken[id] and is_put_back(id, body))
  end

  -- Lease a message that is on a list or parked, or make it a dead letter. Return whether that was
  -- done; if not, it has to wait for the next call.
  function lease_one(body, id, tag, at)
    local field = id and listed and listed.field(id, body)
    local note = field and listed.of(field)
    local count = note and 1 + note.count or 1
    local is_early = count > 1 and note.since > now -- wake_up moved it away
    if #body > max_body then
      stop(tag, at, dead_letter('', body, 'too large', 0, {},
        field and names and names.change(id, mark(body))))
    elseif note and note.canceled > 0 then
      bury_canceled(id, body, note.count) -- it stops no group, since it was never delivered
    elseif is_early and tag ~= '' and slots_of(tag) > 0 and rules_for(tag).limit == 1
      or not is_early and count >= last_receive and must_wait(count) then
      full = true -- an early one would be passed by the rest of its run
      return false
    else
      local key = id and has_recorded(id, body) and id or derive(body, id)
      local is_stale = has_receives and redis.call('HEXISTS', receives, key) == 1
      enter(key, tag, at)
      if is_early then
        postpone(key, id, body, note)
        has_taken[key], has_delayed, bytes = true, true, bytes + #body
      else
        if listed or is_stale then
          recount(key, field and id, body, count, is_stale)
        end
        deliver(key, body, count, tag, at)
      end
    end
    if field then
      listed.take(field)
    end
    return true
  end
end
