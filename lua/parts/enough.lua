-- Needs size, bytes.

local function enough()
  return size > 0 and bytes >= size
end
