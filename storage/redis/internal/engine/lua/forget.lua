-- Takes dead processes off the list of those that may hold messages. The arguments from 6 on: the processes. What the
-- store knows of their calls is kept for those that live and only lost their connection, with the time. Once there are
-- thousands, what is older than a day goes.
redis.call('SCARD', P .. ':P')
if redis.call('HLEN', P .. ':X') > 3000 then
  local all = redis.call('HGETALL', P .. ':X')
  for n = 1, #all, 2 do
    local at = string.match(all[n + 1], '^%d+@(%d+)')
    if at and now - tonumber(at) > 86400000000 then redis.call('HDEL', P .. ':X', all[n], 'c0:' .. all[n], 'c1:' .. all[n]) end
  end
end
for n = 6, #ARGV do
  local name = ARGV[n]
  if redis.call('PUBSUB', 'NUMSUB', P .. ':p:' .. name)[2] == 0 then
    local known = redis.call('HMGET', P, 'n:' .. name, 'c0:' .. name, 'c1:' .. name)
    if known[1] then redis.call('HSET', P .. ':X', name, known[1] .. '@' .. text(now)) end
    if known[2] then redis.call('HSET', P .. ':X', 'c0:' .. name, known[2]) end
    if known[3] then redis.call('HSET', P .. ':X', 'c1:' .. name, known[3]) end
    redis.call('HDEL', P, 'n:' .. name, 'c0:' .. name, 'c1:' .. name)
    redis.call('SREM', P .. ':P', name)
  end
end
changed(0)
return {now, number, lost}
