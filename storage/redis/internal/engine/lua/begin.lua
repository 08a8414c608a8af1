-- Every script begins so. KEYS[1] is the prefix, and the key of the store's own hash. The arguments are
--   1 the store's mark, 2 the least and 3 the greatest time that this process believes, 4 the process (8 bytes) and the
--   greatest number of its changes that it was told, 5 the time of a store in virtual time, or ''.
-- Behind the greatest time may stand a jump that the process has proved: @, the difference to the server's clock that
-- the store had then, @, and how much to take away.
-- Every reply begins with the time, the number of the process's last change (0 if this call has changed nothing), and
-- how many of its changes were lost.
local P, LINE = KEYS[1], KEYS[1] .. ':q:'
local process, known = string.sub(ARGV[4], 1, 8), tonumber(string.sub(ARGV[4], 9))
local own = redis.call('HMGET', P, 'mark', 'seen', 'ahead', 'n:' .. process)
if own[1] ~= ARGV[1] then return redis.error_reply('GONE the store was wiped or replaced') end
local clock = tonumber(ARGV[5])
if not clock then
  local t = redis.call('TIME')
  clock = t[1] * 1000000 + t[2]
end
local function text(n) return string.format('%.0f', n) end

local ahead, seen, most = tonumber(own[3]), tonumber(own[2]), tonumber(ARGV[3])
local now = clock + ahead
if ahead < 0 and now > seen then -- what was taken away comes back slowly, by a thousandth of the time that passes
  now = now + math.min(-ahead, math.floor(now / 1000) - math.floor(seen / 1000))
end
local told = now
do -- time neither goes back nor jumps
  local least = math.max(seen, tonumber(ARGV[2]))
  if not most then
    local was, less
    most, was, less = string.match(ARGV[3], '^(%d+)@(%-?%d+)@(%d+)$')
    most = tonumber(most)
    if tonumber(was) == ahead then now = now - tonumber(less) end
  end
  if now < least then
    now = least
  elseif most > 0 and now > most then -- the clock has jumped, or this call was on its way for long: the process knows
    return redis.error_reply('JUMP ' .. text(now) .. ' ' .. text(ahead))
  end
end

-- count is how many changes the store has of this process. What is missing was taken back by a failover, or by a restart
-- from an older file. A process whose connection was away for long may count as dead: its number is kept elsewhere.
local count, number, lost = tonumber(own[4]), 0, 0
if not count then
  local kept = redis.call('HGET', P .. ':X', process)
  count = kept and tonumber(string.match(kept, '^%d+')) or 0
end

if not own[4] then redis.call('SCARD', P .. ':P') end

-- changed notes n changes, and what this call has found out about time and losses. With n = 0 it writes only if there is
-- something of that. A script that changes nothing leaves it to the next one.
local function changed(n)
  if count < known then lost, count = known - count, known end
  if n == 0 and lost == 0 and now == told then return end
  count = count + n
  if n > 0 then number = count end
  if not own[4] then redis.call('SADD', P .. ':P', process) end
  redis.call('HSET', P, 'seen', text(now), 'ahead', text(now - clock), 'n:' .. process, text(count))
  if lost > 0 then
    redis.call('HINCRBY', P, 'lost', lost)
    redis.call('HSET', P, 'lostat', text(now))
  end
end

-- many calls a command with any number of arguments.
local function many(command, key, args)
  local n = #args
  for from = 1, n, 1000 do
    redis.call(command, key, unpack(args, from, math.min(from + 999, n)))
  end
end

-- read is many for a command whose reply is a list.
local function read(command, key, args)
  local n = #args
  if n <= 1000 then
    return n == 0 and {} or redis.call(command, key, unpack(args))
  end
  local all = {}
  for from = 1, n, 1000 do
    for _, x in ipairs(redis.call(command, key, unpack(args, from, math.min(from + 999, n)))) do
      all[#all + 1] = x
    end
  end
  return all
end
