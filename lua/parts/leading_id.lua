local HEAD = 521 -- bytes in which the longest id ends; a pattern must not walk a long body

-- Return the id of a JSON object that begins with it, as ackq's own messages do, or nil.
local function leading_id(body)
  local head = string.sub(body, 1, HEAD)
  local id = string.match(head, '^{"id":%s?"([^"\\%c]+)"')
    or string.match(head, '^{"id":%s?([1-9]%d?%d?%d?%d?%d?%d?%d?%d?%d?%d?%d?%d?%d?%d?)[,}]')
  return id and #id <= 512 and id or nil
end
