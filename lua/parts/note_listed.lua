-- include: mark, unique_notes
-- Needs receives, unique.

-- Note a message of a unique push that is on a list, believed until a moment. ``is_free``: none of
-- the id is in flight, so whatever is noted of it is of a message that is gone.
local function note_listed(id, body, moment, is_free)
  if is_free then
    redis.call('HDEL', receives, id, TAKEN .. id)
  end
  redis.call('HSET', receives, unique == 'done' and id or TAKEN .. id,
    '0:' .. mark(body) .. ':' .. moment)
  if unique == 'taken' then
    redis.call('HSET', receives, TAKEN, ':') -- tells pop that there are such notes
  end
end
