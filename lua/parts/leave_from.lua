-- Leave the messages from a position on, and the results for them, to the next call.
local function leave_from(position, reply)
  while #reply > 1 and math.abs(reply[#reply]) >= position do
    reply[#reply] = nil
  end
  reply[#reply + 1] = 0
  reply[#reply + 1] = position
end
