-- Finds messages by their key. The arguments: 6 queue, 7 key. The reply goes on with, for each message, the whole, its
-- nonce ('' where a consumer has received it since it was sent or rewritten), and its deliveries.
local q, found = line(ARGV[6]), {}
for _, id in ipairs(redis.call('SMEMBERS', q.k .. ARGV[7])) do
  local whole = redis.call('HGET', q.b, id)
  if whole then
    local owner, n = redis.call('HGET', q.o, id), redis.call('HGET', q.n, id)
    found[#found + 1] = whole
    found[#found + 1] = not owner and NONE or #owner == 8 and owner or ''
    found[#found + 1] = tonumber(n) or (owner and 1 or 0)
  end
end
return {now, 0, 0, found}
