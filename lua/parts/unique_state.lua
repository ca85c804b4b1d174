-- include: unique_notes
-- Needs ready, backup, handoff, receives, delayed, held, now; parked with groups.

-- Return where a lease key is: delayed, ended, leased or nil.
local function whereabouts(key)
  if redis.call('ZSCORE', delayed, key) then
    return 'delayed'
  end
  local deadline = redis.call('ZSCORE', backup, key)
  return deadline and (tonumber(deadline) <= now and 'ended' or 'leased') or nil
end

local function is_believed(note)
  local moment = string.match(note, '^%d+:%d+:%x+:(%d+)$')
  return moment and tonumber(moment) > now
end

-- Return whether a message of this id is in the queue: 'free', 'leased', 'ready', or 'delayed' and
-- its lease key. Or 'search' and its notes, if only a search of the lists can tell. ``gone`` are
-- notes of a message that an earlier search did not find.
local function state_of(id, gone)
  local found = redis.call('HMGET', receives, id, TAKEN .. id)
  local place, noted, taken = whereabouts(id), found[1] or '', found[2] or ''
  local key = string.byte(taken) == 0 and (string.gsub(taken, '-', ':'))
  local other = key and whereabouts(key)
  if other == 'delayed' or (place == 'delayed' and (taken == '' or key)) then
    return 'delayed', other == 'delayed' and key or id
  elseif place == 'delayed' or place == 'ended' or other == 'ended' then
    return 'ready'
  end
  noted = not place and string.find(noted, ':', 1, true) and noted or ''
  taken = not key and taken or ''
  local notes = noted .. '|' .. taken
  if notes == '|' or notes == gone or (redis.call('EXISTS', ready, handoff, held) == 0
    and not (parked and redis.call('EXISTS', parked) == 1)) then
    return (place or other) and 'leased' or 'free'
  end
  if is_believed(noted) or is_believed(taken) then
    return 'ready'
  end
  return 'search', notes
end

-- Believe the notes of a message that is on a list until another moment.
local function believe(id, notes, moment)
  local noted, taken = string.match(notes, '^(.-)|(.*)$')
  for field, note in pairs({[id] = noted, [TAKEN .. id] = taken}) do
    if note ~= '' then
      local start = string.match(note, '^%d+:%d+:%x+') or '0:0:0'
      redis.call('HSET', receives, field, start .. ':' .. moment)
    end
  end
end
