-- include: groups/slot_changes
-- Needs flight, runs, delayed, now.

-- Take settled messages out of the runs of their groups: all of a group, or some. If one message of
-- a run is left, it is no longer a run. The first one that is left becomes due if it waits for an
-- earlier one.
local function leave_runs(keys, entries, known)
  local members = {}
  for i, entry in ipairs(entries) do
    local tag = entry and string.sub(entry, PLACE + 2)
    if tag and slots_of(tag) > known[tag] then
      members[#members + 1] = head_of(tag) .. string.sub(entry, 2, PLACE + 1) .. keys[i]
    end
  end
  if #members > 0 then
    redis.call('ZREM', runs, unpack(members))
  end
  for tag, number in pairs(known) do
    local before, left = slots_of(tag), slots_of(tag) - number
    local first = before > 1 and left > 0 and first_of(runs, tag, 1)[1]
    local key = first and string.sub(first, #head_of(tag) + PLACE + 1)
    local entry = key and redis.call('HGET', flight, key)
    if entry and string.byte(entry) == 62 and redis.call('ZSCORE', delayed, key) then -- >
      redis.call('ZADD', delayed, 'XX', string.format('%.0f', now), key)
      redis.call('HSET', flight, key, '=' .. string.sub(entry, 2))
    end
    if before > 1 and left <= 1 then
      redis.call('ZREMRANGEBYLEX', runs, range_of(tag))
    end
  end
end

-- Free the slots of messages that are settled.
local function free(keys)
  local entries, tags, known = redis.call('HMGET', flight, unpack(keys)), {}, {}
  local are_several = false -- as only then a group has a run
  for i = 1, #keys do
    local tag = entries[i] and string.sub(entries[i], PLACE + 2)
    local number = tag and known[tag]
    if number then
      known[tag] = number + 1
    elseif tag then
      known[tag], tags[#tags + 1] = 1, tag
    end
  end
  if #tags == 0 then
    return
  end
  know_slots(tags)
  redis.call('HDEL', flight, unpack(keys))
  for i = 1, #tags do
    are_several = are_several or slots[tags[i]] > 1
  end
  if are_several and redis.call('ZCARD', runs) > 0 then
    leave_runs(keys, entries, known)
  end
  for i = 1, #tags do
    local tag = tags[i]
    add_slots(tag, -known[tag])
    if are_parked then
      turn(tag)
    end
  end
end
