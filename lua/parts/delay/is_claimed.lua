-- include: delay/lease_of

-- Whether a message still belongs to the claim. The ready time must equal the lease too: otherwise
-- another client touched the message, and it may be a new one with the same key.
local function is_claimed(index, lease, ready_at)
  return lease and ready_at and tonumber(lease) == lease_of(index)
    and math.floor(ready_at * 1000000 + 0.5) == lease_of(index)
end
