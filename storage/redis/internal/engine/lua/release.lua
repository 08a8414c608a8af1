-- Ends visibilities of what dead processes hold of a queue. The arguments: 6 deliveries at most, 7 queue, 8 where to go
-- on, then the processes. A message that was delivered more often waits for the end of its visibility. A queue with a
-- key of a foreign type is left out, so that it keeps no other queue from its messages. The reply goes on with how many
-- messages were released, and where to go on ('0' at the end). One call looks at some 500 messages.
local q, dead, released = line(ARGV[7]), {}, 0
for n = 9, #ARGV do
  if redis.call('PUBSUB', 'NUMSUB', P .. ':p:' .. ARGV[n])[2] == 0 then dead[ARGV[n]] = true end
end
if not pcall(check, q) or q.held == 0 then return {now, 0, 0, 0, '0'} end
local page = redis.call('HSCAN', q.o, ARGV[8], 'COUNT', 500)
for n = 1, #page[2], 2 do
  local id, owner = page[2][n], page[2][n + 1]
  if dead[string.sub(owner, 9)] and tonumber(redis.call('HGET', q.n, id) or 1) <= tonumber(ARGV[6]) and redis.call('ZREM', q.v, id) == 1 then
    redis.call('HSETNX', q.n, id, 1)
    redis.call('LPUSH', q.r, id)
    released = released + 1
  end
end
if released > 0 then redis.call('PUBLISH', P .. ':l:' .. q.name, '') end
changed(released > 0 and 1 or 0)
return {now, number, lost, released, page[1]}
