-- Needs backup, context, delayed, has_delayed.

-- The article's pop leaves the body of each message that it puts back on the list in CONTEXT.
-- Return whether this is such a message: it takes over what is recorded of it.
local function is_put_back(key, body)
  return not redis.call('ZSCORE', backup, key)
    and not (has_delayed and redis.call('ZSCORE', delayed, key))
    and redis.call('HGET', context, key) == body
end
