local LONG_BATCH = 20 -- messages
-- Redis stores a small sorted set or hash as a list and scans it at each insertion, unless a member
-- is over 64 bytes long (zset-max-listpack-value). So a long batch adds such a member for a moment.
-- It cannot be a lease key, because derived keys have no hyphen.
local LONG_KEY = '\0' .. string.rep('-', 64)
