-- Every script begins so. KEYS[1] is the prefix, and the key of the store's own hash. The arguments are
--   1 the store's mark, 2 the least and 3 the greatest time that this process believes, 4 the greatest number of a
--   change that it was told, 5 the time of a store in virtual time, or ''.
-- Every reply begins with the time, the number of the change (0 if there was none), and how many changes were lost.
local P, LINE = KEYS[1], KEYS[1] .. ':q:'
local own = redis.call('HMGET', P, 'mark', 'seen', 'ahead', 'seq')
if own[1] ~= ARGV[1] then return redis.error_reply('GONE the store was wiped or replaced') end
local clock = tonumber(ARGV[5])
if not clock then
  local t = redis.call('TIME')
  clock = t[1] * 1000000 + t[2]
end
local seen, seq, lost = tonumber(own[2]), tonumber(own[4]), 0
local now = clock + tonumber(own[3])
local function text(n) return string.format('%.0f', n) end

do -- time neither goes back nor jumps, and what this call finds out about that holds for all later calls
  local told = now
  local least, most = math.max(seen, tonumber(ARGV[2])), tonumber(ARGV[3])
  if now < least then
    now = least
  elseif most > 0 and now > most then
    now = math.max(least, most)
  end
  local known = tonumber(ARGV[4])
  if known > seq then -- a failover, or a restart from an older file, has taken changes back
    lost, seq = known - seq, known
    redis.call('HINCRBY', P, 'lost', lost)
    redis.call('HSET', P, 'seq', text(seq), 'lostat', text(now))
  end
  if now ~= told then
    redis.call('HSET', P, 'seen', text(now), 'ahead', text(now - clock))
  end
end

-- changed notes that a script has changed something. Only then the reply has a number: that of other programs' changes
-- may be of one that no replica has, and that nobody was told of.
local number = 0
local function changed(n)
  seq = seq + n
  number = seq
  redis.call('HSET', P, 'seen', text(now), 'ahead', text(now - clock), 'seq', text(seq))
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
