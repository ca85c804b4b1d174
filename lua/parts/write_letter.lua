-- Needs now, in µs.

-- Write a dead letter to a stream, and return its id there. ``errors`` are lines as in ERRORS.
local function write_letter(stream, letter)
  local further = letter.is_unique and {'unique', '1'} or {}
  if letter.errors and #letter.errors > 0 then
    further[#further + 1] = 'errors'
    further[#further + 1] = table.concat(letter.errors, '\n')
  end
  return redis.call('XADD', stream, '*', 'key', letter.key, 'body', letter.body,
    'reason', letter.reason, 'count', letter.count, 'time', string.format('%.0f', now),
    unpack(further))
end
