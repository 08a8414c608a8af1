-- Takes an element of a list. The arguments: 6 list, 7 end (F or L), 8 claim, or '' if nobody holds the element. The
-- reply goes on with the element (false if there is none). A claim that
-- holds an element gets it again: the first answer was lost.
local element = ARGV[8] ~= '' and redis.call('HGET', H, ARGV[8])
if element then return {now, number, lost, element} end
element = redis.call(ARGV[7] == 'F' and 'LPOP' or 'RPOP', L)
if element then
  if ARGV[8] ~= '' then redis.call('HSET', H, ARGV[8], element) end
end
changed(element and 1 or 0)
return {now, number, lost, element}
