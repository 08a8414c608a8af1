-- Takes dead processes off the list of those that may hold messages. The arguments from 6 on: the processes. Their
-- numbers of changes are kept for those that live and only lost their connection, the newest thousand or so.
redis.call('SCARD', P .. ':P')
if redis.call('HLEN', P .. ':X') > 1000 then redis.call('DEL', P .. ':X') end
for n = 6, #ARGV do
  local name = ARGV[n]
  if redis.call('PUBSUB', 'NUMSUB', P .. ':p:' .. name)[2] == 0 then
    local count = redis.call('HGET', P, 'n:' .. name)
    if count then redis.call('HSET', P .. ':X', name, count) end
    redis.call('HDEL', P, 'n:' .. name)
    redis.call('SREM', P .. ':P', name)
  end
end
changed(0)
return {now, number, lost}
