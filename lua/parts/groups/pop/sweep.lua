-- Sweeps: only places, counts, notes and slots of messages that are nowhere are deleted.

local SWEEPS = 8 -- one in this many calls that take messages looks at a tenth of those slots

-- Look at some slots, and free those of messages that a script without groups has deleted.
local function sweep_slots(some)
  local keys, lost = redis.call('HRANDFIELD', flight, some), {}
  for _, key in ipairs(keys) do
    if redis.call('HEXISTS', context, key) == 0 and not redis.call('ZSCORE', backup, key)
      and not redis.call('ZSCORE', delayed, key) then
      lost[#lost + 1] = key
    end
  end
  if #lost > 0 then
    free(lost)
    write_slots()
  end
  return #lost > 0
end

-- Sweep a queue in which nothing can be taken. Return whether it is some group's turn after that.
local function sweep_all()
  local some = redis.call('EXISTS', parked) == 1 and SWEPT or SWEPT / 10
  if sweep_slots(some) and are_due() then
    return true
  end
  if redis.call('EXISTS', parked, flight, letters) == 0 then
    redis.call('HDEL', record, 'place') -- no place is in use
  end
  if redis.call('EXISTS', parked) == 0 then
    sweep_stale()
  end
  return false
end
