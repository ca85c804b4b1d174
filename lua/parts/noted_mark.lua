-- Return the mark of the body that a unique push noted.
local function noted_mark(note)
  return string.match(note or '', '^%d+:(%d+:%x+):%d+$')
end
