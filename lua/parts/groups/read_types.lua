-- Check the types of the keys of groups, so that an error means that nothing was done. Return
-- whether messages are parked, what WOKEN says, whether groups are stopped, whether some are
-- paused or have limits of their own, and whether runs and turns exist.
local function read_types()
  redis.call('HLEN', busy)
  local have_turns = redis.call('ZCARD', turns) > 0
  redis.call('HLEN', flight)
  local are_parked = redis.call('ZCARD', parked) > 0
  if redis.call('EXISTS', runs, woken, rates, room, stopped, letters, limits, pauses) == 0 then
    return are_parked, '', false, false, false, have_turns -- as usual
  end
  redis.call('ZCARD', rates)
  redis.call('LLEN', room)
  redis.call('HLEN', letters)
  return are_parked, redis.call('GET', woken) or '', redis.call('HLEN', stopped) > 0,
    redis.call('HLEN', limits) + redis.call('ZCARD', pauses) > 0, redis.call('ZCARD', runs) > 0,
    have_turns
end
