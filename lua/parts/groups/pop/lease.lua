-- include: is_put_back

-- Leases: a message that leaves a list or PARKED is leased, or a dead letter.

local lease_one
do
  -- Return whether an operator canceled this message, which becomes a dead letter then. It stops no
  -- group, since it was never delivered.
  local function is_canceled(body, id, noted, head)
    local cancels = open_cancels(head, {id})
    if not (cancels.notes[1] and cancels.use(id, body, cancels.notes[1])) then
      return false
    end
    bury_canceled(id, body, noted)
    cancels.write()
    return true
  end

  -- Record a message under its id. Return whether that is free, or has what the article left of it.
  local function has_recorded(id, body)
    return redis.call('HSETNX', context, id, body) == 1
      or (not has_taken[id] and is_put_back(id, body))
  end

  -- Lease a message that is on a list or parked, or make it a dead letter. Return whether that was
  -- done; if not, it has to wait for the next call.
  function lease_one(body, id, tag, at)
    if not has_receives and #body <= max_body and last_receive > 1 then
      -- The usual message, of which nothing is known. The code below does the same.
      local key = id and has_recorded(id, body) and id or derive(body)
      enter(key, tag, at)
      deliver(key, body, 1, tag, at)
      return true
    end
    local known, taken_note, head
    if id and has_receives then
      known, taken_note, head = unpack(redis.call('HMGET', receives, id, TAKEN .. id, CANCELS))
    end
    if #body > max_body then
      stop(tag, at, dead_letter('', body, 'too large', 0, {}, free_id(body, id)))
      return true
    elseif head and is_canceled(body, id, known, head) then
      return true
    end
    local count = known and 1 + listed_count(known, body) or 1
    if count >= last_receive and must_wait(count) then
      full = true
      return false
    end
    -- An ack deletes the note of its id, so only the message that it is of may have that key.
    local noted, key = known and noted_mark(known), id
    if id and (not noted or noted == mark(body)) and has_recorded(id, body) then
      -- A count without the mark of a body is of a message that the article's scripts settled.
      local stale = known and tonumber(known)
      if stale and has_errors then
        redis.call('HDEL', errors, key)
      end
      if count > 1 or stale then
        recounted[#recounted + 1] = key
        recounted[#recounted + 1] = count .. (noted and ' ' or '')
      end
    else
      key, count = derive(body), 1
    end
    if taken_note and noted_mark(taken_note) == mark(body) then
      redis.call('HDEL', receives, TAKEN .. id)
    end
    if has_receives then
      counts[#counts + 1] = count
    end
    enter(key, tag, at)
    deliver(key, body, count, tag, at)
    return true
  end
end
