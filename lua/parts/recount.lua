-- Needs errors, has_errors, counts, taken, recounted, names.

-- Note what is known of a message that leaves a list. ``is_stale``: its id has a count of a message
-- that the article's scripts settled.
local function recount(key, id, body, count, is_stale)
  if names and id and next(names.of(id)) then
    names.change(id, mark(body), select(2, id_in(key)))
  end
  if is_stale and has_errors then
    redis.call('HDEL', errors, key)
  end
  -- The count is replaced, since Redis refuses access to an emptied key while its slot moves.
  if count > 1 or is_stale then
    recounted[#recounted + 1], recounted[#recounted + 2] = key, count
  end
  if count > 1 then -- those that are left out at the end are 1
    for i = #counts + 1, taken do
      counts[i] = 1
    end
    counts[taken + 1] = count
  end
end
