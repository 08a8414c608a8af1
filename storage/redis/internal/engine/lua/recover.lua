-- Gives back what dead processes hold of a list. The arguments: 6 list, then the processes that were silent before. The
-- reply goes on with how many elements were given back, and the processes that hold something and are silent.
local before, silent, names, claims = {}, {}, {}, {}
for n = 7, #ARGV do before[ARGV[n]] = true end
for _, claim in ipairs(redis.call('HKEYS', H)) do
  local name = string.sub(claim, 1, 8)
  if silent[name] == nil then
    silent[name] = redis.call('PUBSUB', 'NUMSUB', P .. ':p:' .. name)[2] == 0
    if silent[name] then names[#names + 1] = name end
  end
  if silent[name] and before[name] then claims[#claims + 1] = claim end
end
local given = giveBack(claims)
return {now, number, lost, given, names}
