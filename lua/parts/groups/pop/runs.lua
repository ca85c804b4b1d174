-- Runs: a message of a run that comes back is delivered only if all before it are settled or taken
-- by this call, and none behind it is leased to another consumer.

local waits_until

do
  local LOOKS_OF_RUN = 8 -- messages of a run that are read for as much as looking at one costs
  local RECHECKED = 1000000 -- µs after which the first message of a run looks again for the others

  -- Return the messages of a group's run: their keys in order, and the deadlines of their leases.
  local known_runs = {}
  local function run_of(tag)
    if not known_runs[tag] then
      local members, keys = first_of(runs, tag, RUN), {}
      for i, member in ipairs(members) do
        keys[i] = string.sub(member, #head_of(tag) + PLACE + 1)
      end
      looked = looked + #keys / LOOKS_OF_RUN
      known_runs[tag] = {keys, #keys > 0 and redis.call('ZMSCORE', backup, unpack(keys)) or {}}
    end
    return unpack(known_runs[tag])
  end

  -- Return the µs at which to look again, if a message of a run has to wait: for an earlier one
  -- that is not settled, or a later one whose lease runs. The end of one makes the next one due, so
  -- those behind it look again less often.
  function waits_until(key, tag)
    local keys, deadlines = run_of(tag)
    local is_earlier, rank, is_leased, till = true, 0, false, nil
    for i, other in ipairs(keys) do
      is_earlier = is_earlier and other ~= key
      rank = rank + (is_earlier and 1 or 0)
      if not till and other ~= key and not has_taken[other] then
        local ends = tonumber(deadlines[i] or nil)
        is_leased = ends and ends > now
        if is_leased or is_earlier then
          till = ends or tonumber(redis.call('ZSCORE', delayed, other) or nil)
        end
      end
    end
    if is_leased and till then
      till = math.min(till, now + RECHECKED * (rank + 1))
    end
    return till and till + rank
  end
end

-- Let a message wait in DELAYED, for another one of its run or for its group's rate. A delivery
-- whose lease has ended counts.
local function defer(zset, key, entry, count, till)
  if zset == backup then
    redis.call('HSET', receives, key, string.format('%.0f', count))
    redis.call('ZREM', backup, key)
    redis.call('HDEL', extended, key)
    count_up('returned', 1)
  end
  redis.call('ZADD', delayed, string.format('%.0f', till), key)
  redis.call('HSET', flight, key, entry)
  -- This call may take it from there, and then reads its count.
  has_receives, has_delayed, deferred = true, true, deferred + 1
end
