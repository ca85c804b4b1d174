-- Needs record.

-- Return the record as its caller knows it, and what it says: see record.lua. Without a record
-- there is no limit but that of one message of a group in flight.
local function rules_of()
  local found = redis.call('HMGET', record, 'format', 'kind', 'in_flight', 'rate', 'on_dead',
    'max_in_flight', 'field', 'place', 'waits')
  local rules = {
    text = found[7] and table.concat(found, ' ', 1, 7), waits = found[9],
    limit = tonumber(found[3] or 1), burst = 0, stops = found[5] == 'stop',
    most = tonumber(found[6] or 0), field = found[7], place = tonumber(found[8] or 0),
  }
  if found[4] and found[4] ~= '0/0/0' then
    local count, period, burst = string.match(found[4], '^(%d+)/(%d+)/(%d+)$')
    rules.each, rules.burst = period / count, tonumber(burst)
  end
  return rules
end
