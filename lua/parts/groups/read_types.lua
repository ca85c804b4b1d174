-- Check the types of the keys of groups, so that an error means that nothing was done. Return
-- whether messages are parked, what WOKEN says, and whether groups are stopped and runs exist.
local function read_types()
  redis.call('HLEN', busy)
  redis.call('ZCARD', turns)
  redis.call('HLEN', flight)
  local are_parked = redis.call('ZCARD', parked) > 0
  if redis.call('EXISTS', runs, woken, rates, room, stopped, letters) == 0 then
    return are_parked, '', false, false -- as usual
  end
  redis.call('ZCARD', rates)
  redis.call('LLEN', room)
  redis.call('HLEN', letters)
  return are_parked, redis.call('GET', woken) or '', redis.call('HLEN', stopped) > 0,
    redis.call('ZCARD', runs) > 0
end
