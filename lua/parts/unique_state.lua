-- include: names, mark
-- Needs ready, backup, handoff, delayed, held, now; parked with groups.

-- Return where a lease key is: delayed, ended, leased or nil.
local function whereabouts(key)
  if redis.call('ZSCORE', delayed, key) then
    return 'delayed'
  end
  local deadline = redis.call('ZSCORE', backup, key)
  return deadline and (tonumber(deadline) <= now and 'ended' or 'leased') or nil
end

local names = open_names()

-- Return whether a message of this id is in the queue: 'free', 'leased', 'ready', or 'delayed' and
-- the lease keys of those that are. Or 'search' and the names of messages, if only a search of the
-- lists can tell. ``gone`` are those that an earlier search did not find. Names of messages that
-- are gone are forgotten.
local function state_of(id, gone)
  local listed, is_believed, keys = {}, false, {[id] = true}
  for name, till in pairs(names.of(id)) do
    if till == '' then
      keys[names.key(id, name)] = name
    else
      listed[#listed + 1] = name .. '/' .. till
      is_believed = is_believed or tonumber(till) > now
    end
  end
  local at, later = {}, {}
  for key, name in pairs(keys) do
    local place = whereabouts(key)
    if place == 'delayed' then
      later[#later + 1] = key
    elseif place then
      at[place] = true
    elseif name ~= true then
      names.change(id, name)
    end
  end
  if #later > 0 then
    return 'delayed', later
  elseif at.ended then
    return 'ready'
  end
  table.sort(listed)
  local words = table.concat(listed, ' ')
  if words ~= '' and words ~= gone and (redis.call('EXISTS', ready, handoff, held) > 0
    or (parked and redis.call('EXISTS', parked) == 1)) then
    if is_believed then
      return 'ready'
    end
    return 'search', words
  end
  for _, word in ipairs(listed) do
    names.change(id, string.match(word, '^[^/]+'))
  end
  return at.leased and 'leased' or 'free'
end

-- Believe that the messages of an id that are on lists stay there until another moment.
local function believe(id, moment)
  for name, till in pairs(names.of(id)) do
    if till ~= '' then
      names.change(id, name, name, moment)
    end
  end
end
