local SEARCHED = 1048576 -- bytes of a body that are searched
local COMPARED = 64 -- bytes of a text that are looked for: more take long in a body like it

-- Return the texts in these arguments, or nil if one is empty or too long.
local function wanted_texts(first, last)
  local wanted = {}
  for i = first, last do
    if #ARGV[i] < 1 or #ARGV[i] > 4096 then
      return
    end
    wanted[#wanted + 1] = ARGV[i]
  end
  return wanted
end

-- Return whether all the texts are in the body, or may be: JSON can write a letter as \u0061, and a
-- slash as \/, and the ends of a long text and a very long body are left out. The client decodes it
-- and decides.
local function contains(body, wanted)
  if #wanted == 0 then
    return true
  end
  local head = #body <= SEARCHED and body or string.sub(body, 1, SEARCHED)
  for i = 1, #wanted do
    local text = string.sub(wanted[i], 1, COMPARED)
    if not string.find(head, text, 1, true) then
      return #body > SEARCHED or string.find(head, '\\u', 1, true) ~= nil
        or string.find(head, '\\/', 1, true) ~= nil
    end
  end
  return true
end
