-- Needs HEAD.

local MAX_DECODED = 65536 -- bytes; nothing can stop a script while it decodes
local DECODE_BUDGET = 73728 -- bytes decoded in one call, and an eighth of those searched for an id
local LONG_ID = 64 -- bytes; reading the rest of an id counts half as much as decoding
local decoded = 0

-- Return the id of a JSON object as a lease key, or nil. ackq's producers put it first, so the
-- usual message needs no decoding.
local function natural_key(body)
  local head = #body <= HEAD and body or string.sub(body, 1, HEAD)
  local id = string.match(head, '^{"id":%s?"([^"\\%c]+)"')
    or string.match(head, '^{"id":%s?([1-9]%d?%d?%d?%d?%d?%d?%d?%d?%d?%d?%d?%d?%d?%d?)[,}]')
  if not id and #body <= MAX_DECODED then
    local named = string.find(body, '"id"', 1, true)
    decoded = decoded + #body / 8 + (named and #body or 0)
    if named and decoded <= DECODE_BUDGET then
      local valid, object = pcall(cjson.decode, body)
      id = valid and type(object) == 'table' and object.id
      if type(id) == 'number' then
        id = id % 1 == 0 and math.abs(id) < 9007199254740992 and string.format('%.0f', id + 0)
      end
    end
  end
  if type(id) == 'string' and #id >= 1 and #id <= 512 and string.byte(id) ~= 0 then
    if #id > LONG_ID then
      decoded = decoded + (#id - LONG_ID) / 2
    end
    return id
  end
end
