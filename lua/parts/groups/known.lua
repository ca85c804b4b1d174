-- include: groups/rules
-- Needs record, ready, handoff, busy, parked, turns, flight, runs, woken, rates, room, stopped.

-- Of a queue with groups, read every type before the first write.
local rules, are_parked, woken_note, are_stopped = nil, false, '', false
if busy then
  rules = rules_of()
  redis.call('LLEN', ready)
  redis.call('LLEN', handoff)
  redis.call('HLEN', busy)
  are_parked = redis.call('ZCARD', parked) > 0
  redis.call('ZCARD', turns)
  redis.call('HLEN', flight)
  redis.call('ZCARD', runs)
  woken_note = redis.call('GET', woken) or ''
  redis.call('ZCARD', rates)
  redis.call('LLEN', room)
  are_stopped = redis.call('HLEN', stopped) > 0
end
