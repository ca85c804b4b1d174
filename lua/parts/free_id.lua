-- include: mark, unique_notes, noted_mark
-- Needs has_receives, receives.

-- A message that becomes a dead letter frees its id. Return whether it was of a unique push.
local function free_id(body, id)
  for _, field in ipairs(id and has_receives and {id, TAKEN .. id} or {}) do
    if noted_mark(redis.call('HGET', receives, field)) == mark(body) then
      redis.call('HDEL', receives, field)
      return true
    end
  end
end
