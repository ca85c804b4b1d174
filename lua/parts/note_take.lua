-- Needs backup, timeout.

-- Note the receipt of a take if the last key is for that: its name is as long as that of BACKUP up
-- to the name of the taker.
local function note_take(lease)
  local latest = KEYS[#KEYS]
  if string.sub(latest, #backup - 5, #backup) == 'TAKEN:' then
    redis.call('SET', latest, lease, 'PX', math.ceil(timeout / 1000))
  end
end
