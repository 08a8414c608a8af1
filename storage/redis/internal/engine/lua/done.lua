-- Ends claims of a list's elements. The arguments: 6 list, 7 'back' if the elements return to the list, then claims. The
-- reply goes on with how many of the claims held something.
local n = 0
if ARGV[7] == 'back' then
  n = giveBack(from(8))
else
  n = redis.call('HDEL', H, unpack(from(8)))
  changed(n)
end
return {now, number, lost, n}
