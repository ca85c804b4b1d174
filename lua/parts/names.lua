-- include: id_in
-- Needs notes, has_notes.

-- NOTES says under a colon and an id which messages of unique pushes have the id: their names, with
-- spaces between. The name of a message in CONTEXT is = if its lease key is the id, or else the end
-- of that key. The name of a message on a list is its mark, a slash, and the µs until which a push
-- believes that it is there.

-- Return what reads and changes these notes.
local function open_names()
  local NOTHING = {} -- the names of most ids
  local names, known, changed = {}, {}, {}

  -- Return the lease key of a message that is in CONTEXT.
  function names.key(id, name)
    return name == '=' and id or '\0' .. id .. '\0' .. name
  end

  -- Read the notes of some ids at once.
  function names.read(ids)
    if not has_notes or #ids == 0 then
      return
    end
    local fields = {}
    for i = 1, #ids do
      fields[i] = ':' .. ids[i]
    end
    local found = redis.call('HMGET', notes, unpack(fields))
    for i = 1, #ids do
      if found[i] and not known[ids[i]] then
        local of = {}
        for name, till in string.gmatch(found[i], '([^ /]+)/?(%d*)') do
          of[name] = till
        end
        known[ids[i]] = of
      end
      known[ids[i]] = known[ids[i]] or NOTHING
    end
  end

  -- Return the names that an id has: name -> µs, or empty in CONTEXT.
  function names.of(id)
    if not known[id] then
      names.read({id})
      known[id] = known[id] or NOTHING
    end
    return known[id]
  end

  -- Give a message another name, or none. ``from``: nil for a message that has none yet. Return
  -- whether the message is of a unique push.
  function names.change(id, from, to, till)
    local of = id and names.of(id)
    if not of or (from and not of[from]) then
      return false
    end
    if of == NOTHING then
      of = {}
      known[id] = of
    end
    if from and from ~= to then
      of[from] = nil
    end
    if to then
      of[to] = till or ''
    end
    changed[id] = true
    return true
  end

  -- Forget a message that ends, by its lease key. Return whether it is of a unique push.
  function names.forget(key)
    return names.change(id_in(key))
  end

  -- Write what was changed. After that, read no note: while the slot moves to another node, Redis
  -- refuses access to a key that a script has emptied.
  function names.write()
    local gone = {}
    for id in pairs(changed) do
      local words = {}
      for name, till in pairs(known[id]) do
        words[#words + 1] = till == '' and name or name .. '/' .. till
      end
      if #words > 0 then
        redis.call('HSET', notes, ':' .. id, table.concat(words, ' '))
      else
        gone[#gone + 1] = ':' .. id
      end
    end
    if #gone > 0 then
      redis.call('HDEL', notes, unpack(gone))
    end
    changed = {}
  end

  -- Forget messages that have ended.
  function names.end_all(keys)
    local ids = {}
    for i = 1, #keys do
      ids[#ids + 1] = id_in(keys[i])
    end
    names.read(ids)
    for i = 1, #keys do
      names.forget(keys[i])
    end
    names.write()
  end

  return names
end
