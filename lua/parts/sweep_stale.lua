-- Needs context, receives, errors, notes, names, has_errors, has_notes, now, SWEPT.

-- All lists are empty, so what is noted of messages on them is stale, and so is a note of failures
-- whose message has no count. Remove some of both at each call; the rest counts no more.
local function sweep_stale()
  local fields = has_notes and redis.call('HRANDFIELD', notes, SWEPT) or {}
  local is_all = #fields < SWEPT
  if not is_all then
    redis.call('HSET', notes, '', string.format('%.0f', now))
  end
  local gone = {}
  for _, field in ipairs(fields) do
    local id = string.match(field, '^:(.*)$')
    for name, till in pairs(id and names.of(id) or {}) do
      if till ~= '' or redis.call('HEXISTS', context, names.key(id, name)) == 0 then
        names.change(id, name)
      end
    end
    if not id and (is_all or field ~= '') then
      gone[#gone + 1] = field
    end
  end
  if names then
    names.write()
  end
  if #gone > 0 then
    redis.call('HDEL', notes, unpack(gone))
  end
  local keys = has_errors and redis.call('HRANDFIELD', errors, SWEPT) or {}
  local known = #keys > 0 and redis.call('HMGET', receives, unpack(keys)) or {}
  for i = 1, #keys do
    if not known[i] then
      redis.call('HDEL', errors, keys[i])
    end
  end
end
