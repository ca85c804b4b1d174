-- Needs record, ready, handoff, busy, parked, turns, flight, runs, woken.

-- Of a queue with groups, read every type before the first write.
local limit, are_parked, woken_note
if record then
  limit = tonumber(string.match(redis.call('GET', record) or '', '^groups:(%d+):') or nil) or 1
  redis.call('LLEN', ready)
  redis.call('LLEN', handoff)
  redis.call('HLEN', busy)
  are_parked = redis.call('ZCARD', parked) > 0
  redis.call('ZCARD', turns)
  redis.call('HLEN', flight)
  redis.call('ZCARD', runs)
  woken_note = redis.call('GET', woken) or ''
end
