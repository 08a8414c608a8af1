-- Receives. The arguments: 6 queue, 7 how many at most, 8 for how long they are hidden, 9 nonce. The reply goes on with
-- when the next hidden message becomes ready if nothing came, the messages, and their deliveries if any of them was
-- delivered before.
local q, max, length = line(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
check(q)
local moved = due(q)
local got, counts, again, dropped = {}, {}, false, 0
local ids, bodies, owners, ends = {}, {}, {}, {}
local till, owner = now + length, ARGV[9] .. process
while #got < max do
  local list = redis.call('LPOP', q.r, max - #got)
  if not list then break end
  for _, x in ipairs(list) do
    local id = x
    if #x == 16 then
      x = ready(q, id)
    else
      id = string.sub(x, 1, 16)
      bodies[#bodies + 1] = id
      bodies[#bodies + 1] = x
    end
    if x and not owners[id] then
      got[#got + 1] = x
      ids[#ids + 1] = id
      owners[id] = true
      ends[#ends + 1] = till
      ends[#ends + 1] = id
    else
      dropped = dropped + 1
    end
  end
  if dropped > 1000 and #got == 0 then break end
end
stale(q, -dropped)
if #got == 0 then
  changed(moved + dropped > 0 and 1 or 0)
  return {now, number, lost, dropped > 1000 and now or first(q)}
end
for n, c in ipairs(read('HMGET', q.n, ids)) do
  counts[n] = 1
  if c then
    counts[n], again = c + 1, true
    redis.call('HSET', q.n, ids[n], c + 1)
  end
end
many('HSET', q.b, bodies)
local held = {}
for n, id in ipairs(ids) do held[2 * n - 1], held[2 * n] = id, owner end
many('HSET', q.o, held)
many('ZADD', q.v, ends)
changed(1)
return {now, number, lost, 0, got, again and counts or false}
