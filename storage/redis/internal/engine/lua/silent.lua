-- Names the processes that hold messages and whose connection for subscriptions is gone. The reply goes on with the
-- names.
local silent = {}
for _, name in ipairs(redis.call('SMEMBERS', P .. ':P')) do
  if redis.call('PUBSUB', 'NUMSUB', P .. ':p:' .. name)[2] == 0 then silent[#silent + 1] = name end
end
return {now, 0, 0, silent}
