-- Ends the visibilities of what dead processes hold. The arguments: 6 deliveries at most, then the processes. A message
-- that was delivered more often waits for the end of its visibility. A queue with a key of a foreign type is left out,
-- so that it keeps no other queue from its messages. The reply goes on with how many messages were released.
local dead, released = {}, 0
redis.call('SCARD', P .. ':P')
for n = 7, #ARGV do
  if redis.call('PUBSUB', 'NUMSUB', P .. ':p:' .. ARGV[n])[2] == 0 then dead[ARGV[n]] = true end
end
for _, name in ipairs(redis.call('SMEMBERS', P .. ':Q')) do
  local q, rings = line(name), false
  if pcall(check, q) and q.held > 0 then
    local cursor = '0'
    repeat
      local page = redis.call('HSCAN', q.o, cursor, 'COUNT', 1000)
      cursor = page[1]
      for n = 1, #page[2], 2 do
        local id, owner = page[2][n], page[2][n + 1]
        if dead[string.sub(owner, 9)] and tonumber(redis.call('HGET', q.n, id) or 1) <= tonumber(ARGV[6]) and redis.call('ZREM', q.v, id) == 1 then
          redis.call('HSETNX', q.n, id, 1)
          redis.call('LPUSH', q.r, id)
          released, rings = released + 1, true
        end
      end
    until cursor == '0'
    if rings then redis.call('PUBLISH', P .. ':l:' .. name, '') end
  end
end
for name in pairs(dead) do redis.call('SREM', P .. ':P', name) end
changed(1)
return {now, number, lost, released}
