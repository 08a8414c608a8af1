-- Lists documents. The arguments: 6 container, 7 and 8 the range in ZRANGEBYLEX's form, 9 how many. The reply goes on
-- with, for each document, its key, the head of its state (ETag and time), and the length of the state.
local found = {}
for _, key in ipairs(redis.call('ZRANGEBYLEX', P .. ':c:' .. ARGV[6], ARGV[7], ARGV[8], 'LIMIT', 0, ARGV[9])) do
  local name = P .. ':D:' .. ARGV[6] .. '\0' .. key
  for _, x in ipairs({key, redis.call('GETRANGE', name, 0, 23), redis.call('STRLEN', name)}) do found[#found + 1] = x end
end
return {now, 0, 0, found}
