-- include: groups/free, groups/wake, groups/admit

-- Free the slots of messages that are settled, and let waiting consumers take what that permits.
local function leave(keys)
  if #keys > 0 then
    free(keys)
    write_slots()
    wake()
  end
  admit()
end
