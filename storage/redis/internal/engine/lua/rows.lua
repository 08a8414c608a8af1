-- Reads rows. The arguments: 6 table and partition, 7 and 8 the range in ZRANGEBYLEX's form, 9 how many. The reply goes
-- on with, for each row, its key and its state.
local found = {}
local keys = redis.call('ZRANGEBYLEX', P .. ':K:' .. ARGV[6], ARGV[7], ARGV[8], 'LIMIT', 0, ARGV[9])
for n, state in ipairs(read('HMGET', P .. ':T:' .. ARGV[6], keys)) do
  found[2 * n - 1], found[2 * n] = keys[n], state
end
return {now, 0, 0, found}
