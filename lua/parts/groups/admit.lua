-- Needs rules, backup, room, looks.

-- A consumer that met the limit of the queue waits for an element of ROOM. If there is room now and
-- a consumer has waited lately, let one look again; its pop lets the next one.
local function admit()
  if rules.most > 0 and redis.call('ZCARD', backup) < rules.most
    and redis.call('EXISTS', looks) == 1 and redis.call('LLEN', room) == 0 then
    redis.call('RPUSH', room, '1')
    redis.call('PEXPIRE', room, '10000') -- nobody may be waiting
  end
end
