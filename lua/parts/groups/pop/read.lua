-- Bodies: a call decodes at most DECODE_BUDGET, whatever they look like. The first body that it
-- reads is always within that, so every body is taken at last.

local DECODE_BUDGET = 73728 -- bytes decoded in one call, and an eighth of those searched for a name
local decoded = 0
local read
do
  local MAX_DECODED = 65536 -- bytes; nothing can stop a script while it decodes
  local LONG_ID = 64 -- bytes; the rest of an id or a group counts half as much as decoding
  local LONG_NAME = 512 -- bytes; of a group with a longer name its hash is stored
  local HEAD = 1200 -- bytes in which the longest id and the group behind it end
  local NUMBER = '(%-?[1-9]' .. string.rep('%d?', 14) .. ')[,}]'
  local NO_GROUP = rules.field == '' and '' or nil
  local QUOTED = '"' .. rules.field .. '"'
  local NAMED = ',%s?' .. string.gsub(QUOTED, '%W', '%%%0') .. ':%s?'
  local USUAL = '^{"id":%s?"([^"\\%c]+)"' .. NAMED .. '"([^"\\%c]+)"'

  -- Return an id or a group as text, or nil. A whole number is the same as its digits in quotes.
  local function name_of(value)
    if type(value) == 'number' and value % 1 == 0 and math.abs(value) < 9007199254740992 then
      return string.format('%.0f', value + 0)
    end
    return type(value) == 'string' and value ~= '' and value or nil
  end

  -- Return the id of a JSON object as a lease key, or nil, and its group, or ''. ackq's producers
  -- put them first, so the usual message needs no decoding.
  function read(body)
    local before = decoded
    local head = #body <= HEAD and body or string.sub(body, 1, HEAD)
    local id, tag = string.match(head, USUAL)
    tag = NO_GROUP or tag
    if id and #id <= LONG_ID and #tag <= LONG_ID then
      return id, tag
    elseif not id then
      local behind
      id, behind = string.match(head, '^{"id":%s?"([^"\\%c]+)"()')
      if not id then
        id, behind = string.match(head, '^{"id":%s?([1-9]' .. string.rep('%d?', 14) .. ')()[,}]')
      end
      tag = NO_GROUP or id and (string.match(head, '^' .. NAMED .. '"([^"\\%c]+)"', behind)
        or string.match(head, '^' .. NAMED .. NUMBER, behind))
    end
    if not (id and tag) and #body <= MAX_DECODED then
      local has_tag = not tag and string.find(body, QUOTED, 1, true)
      local named = has_tag or not id and string.find(body, '"id"', 1, true)
      decoded = decoded + #body / 8 + (named and #body or 0)
      if named and decoded <= DECODE_BUDGET then
        local valid, object = pcall(cjson.decode, body)
        if valid and type(object) == 'table' then
          id = id or name_of(object.id)
          tag = tag or has_tag and name_of(object[rules.field])
        end
      end
    end
    if id and (#id > 512 or string.byte(id) == 0) then
      id = nil
    end
    if id and #id > LONG_ID then
      decoded = decoded + (#id - LONG_ID) / 2
    end
    if tag and #tag > LONG_ID then
      decoded = decoded + (#tag - LONG_ID) / 2
    end
    if before == 0 then
      decoded = math.min(decoded, DECODE_BUDGET) -- the first body of a call is always within it
    end
    if tag and #tag > LONG_NAME then
      tag = '\1' .. redis.sha1hex(tag)
    end
    return id, tag or ''
  end
end
