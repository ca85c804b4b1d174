-- Return what a record says, or nil if it is of another kind: see groups/record.lua.
local function rules_of(text)
  local limit, count, period, burst, on_dead, most, field = string.match(text or '',
    '^groups:(%d+):(%d+)/(%d+)/(%d+):(%a+):(%d+):(.*)$')
  return limit and {
    limit = tonumber(limit), burst = tonumber(burst), stops = on_dead == 'stop',
    each = tonumber(count) > 0 and period / count or nil, most = tonumber(most), field = field,
  }
end
