-- Return the rules of groups, from the fields in_flight, rate, on_dead and max_in_flight of the
-- record. Without one there is no limit but that of one message of a group in flight.
local function rules_of(found)
  local rules = {
    limit = tonumber(found[1] or 1), burst = 0, stops = found[3] == 'stop',
    most = tonumber(found[4] or 0),
  }
  if found[2] and found[2] ~= '0/0/0' then
    local count, period, burst = string.match(found[2], '^(%d+)/(%d+)/(%d+)$')
    rules.each, rules.burst = period / count, tonumber(burst)
  end
  return rules
end
