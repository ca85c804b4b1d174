-- Needs renewed, base, before.

-- When the lease of a claimed message ends, in µs. They end a microsecond apart, so that messages
-- keep their order if nobody renews them. A renewal moves the first messages first.
local function lease_of(index)
  return (index < renewed and base or before) + index
end
