-- Return whether RECEIVES has this of a message of a unique push, which is leased or delayed.
local function is_unique(note)
  return note and string.find(note, '[: ]') ~= nil
end
