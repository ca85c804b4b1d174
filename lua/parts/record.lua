-- Needs record, and known: right, left or groups, as the caller knows the queue; nil: either end.

-- Refuse a caller that knows another record. It may know settings that are not recorded yet.
local recorded = redis.call('HMGET', record, 'format', 'kind')
local function refusal()
  return redis.error_reply('ACKQ_RECORD the caller knows ' .. (known or 'no groups') .. ', but '
    .. (recorded[1] and (recorded[2] or '') .. ' of format ' .. recorded[1] or 'nothing')
    .. ' is recorded')
end
if known and known ~= 'right' and known ~= 'left' and known ~= 'groups' then
  return redis.error_reply('ACKQ_ARGUMENT what is known of the record is right, left or groups')
end
if recorded[1] and (recorded[1] ~= '2' or recorded[2] ~= (known or 'left')) then
  return refusal()
end
