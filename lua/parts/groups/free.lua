-- Needs flight, runs, delayed, now_text.

-- Free the slots of messages that are settled. Of a run, the next message becomes due if it waits
-- for this one only.
local function free(keys)
  local entries, tags, known, ran = redis.call('HMGET', flight, unpack(keys)), {}, {}, {}
  local are_run = redis.call('ZCARD', runs) > 0
  for i, entry in ipairs(entries) do
    if entry then
      local tag = string.sub(entry, PLACE + 2)
      if not known[tag] then
        known[tag], tags[#tags + 1] = 0, tag
      end
      known[tag] = known[tag] + 1
      if are_run then
        ran[#ran + 1] = head_of(tag) .. string.sub(entry, 2, PLACE + 1) .. keys[i]
      end
    end
  end
  if #tags == 0 then
    return
  end
  know_slots(tags)
  redis.call('HDEL', flight, unpack(keys))
  if #ran > 0 then
    redis.call('ZREM', runs, unpack(ran))
  end
  for _, tag in ipairs(tags) do
    add_slots(tag, -known[tag])
    local first = are_run and first_of(runs, tag, 1)[1]
    local key = first and string.sub(first, #head_of(tag) + PLACE + 1)
    local entry = key and redis.call('HGET', flight, key)
    if entry and string.byte(entry) == 62 and redis.call('ZSCORE', delayed, key) then -- >
      redis.call('ZADD', delayed, 'XX', now_text, key)
      redis.call('HSET', flight, key, '=' .. string.sub(entry, 2))
    end
    turn(tag)
  end
end
