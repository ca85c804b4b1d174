-- include: listed, names, id_in
-- Needs names: of the settle part; notes, has_notes, now.

local listed = has_notes and open_listed()

-- Note a message that returns to a list, or is moved aside: how often it was delivered, when it is
-- due (µs; nil: now), and that it has its id if it is of a unique push.
local function note_listed(key, body, count, due)
  local id, name = id_in(key)
  if not id then
    return -- it gets a new derived key at each delivery
  end
  listed = listed or open_listed()
  listed.add(id, body, count, due)
  if names then
    -- Another word at each return: a search that began before it cannot have seen the message.
    names.change(id, name, mark(body), string.format('%.0f', now))
  end
end

local function write_notes()
  if listed then
    listed.write()
  end
  if names then
    names.write()
  end
end
