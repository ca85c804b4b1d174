-- topic/probe: find the first of several messages that still exists.
--
-- KEYS[1..] {name}:messages:<index>  STRING  messages in the order of their indexes
--
-- Takes no arguments.
--
-- Returns the position, from 1, of the first existing one; 0 if there is none.
-- Atomic because the messages are checked at one instant; nothing is written.
-- Cost: O(keys), at most 1000.
-- Roles: producer, consumer, viewer, operator
if #KEYS > 1000 then
  return redis.error_reply('ACKQ_ARGUMENT topic/probe: at most 1000 keys')
end
if redis.call('EXISTS', unpack(KEYS)) > 0 then
  for i = 1, #KEYS do
    if redis.call('EXISTS', KEYS[i]) == 1 then
      redis.call('STRLEN', KEYS[i]) -- an error, if it is no string and so no message
      return i
    end
  end
end
return 0
