-- Counts. The arguments: 6 queue. The reply goes on with ready, in flight, delayed, and the time of sending of the
-- oldest ready message (0 if there is none), looked for among the first 32 and the last 32.
local q = line(ARGV[6])
check(q)
local over, late = redis.call('ZCOUNT', q.v, '-inf', now), redis.call('ZCOUNT', q.d, '-inf', now)
local empty = tonumber(redis.call('HGET', q.n, '') or 0)
local oldest = 0

local function older(whole)
  local sent = whole and sentAt(whole)
  if sent and (oldest == 0 or sent < oldest) then oldest = sent end
end

local function look(from, step)
  for n = 0, math.min(q.ready, 32) - 1 do
    local x = redis.call('LINDEX', q.r, from + n * step)
    if not x then return end
    if #x > 16 then return older(x) end -- what is whole lies in the order of sending
    older(ready(q, x))
  end
end

look(0, 1)
look(-1, -1)
for _, key in ipairs({q.v, q.d}) do
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', key, '-inf', now, 'LIMIT', 0, 32)) do older(redis.call('HGET', q.b, id)) end
end
return {now, 0, 0, math.max(0, q.ready - empty) + over + late, q.held - over, redis.call('ZCARD', q.d) - late, oldest}
