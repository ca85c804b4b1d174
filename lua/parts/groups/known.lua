-- include: groups/rules, groups/read_types
-- Needs record, ready, handoff, and the keys of groups.

-- Read every type of a queue with groups before the first write.
local rules, are_parked, woken_note, are_stopped, are_apart
if busy then
  rules = rules_of(redis.call('HMGET', record, 'in_flight', 'rate', 'on_dead', 'max_in_flight'))
  redis.call('LLEN', ready)
  redis.call('LLEN', handoff)
  are_parked, woken_note, are_stopped, are_apart = read_types()
end
