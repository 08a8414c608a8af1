-- A line is what a queue consists of:
--   :r list  what is ready: a whole message, or the ID alone (16 bytes) of one whose body is in :b
--   :b hash  ID → whole message: in flight, delayed, handed back, keyed, or shown
--   :v zset  in flight, by the end of its visibility; :d zset delayed, by the end of its delay
--   :o hash  ID → nonce (8) and process (8) of the newest claim, or nonce and '' since a rewrite
--   :n hash  ID → deliveries, where more than those of a claim under way; '' → IDs in :r that stand for nothing
--   :i hash  ID → key; :k:KEY set of IDs
-- A whole message is its ID (16), the time of its sending (8, in microseconds, the largest byte first), and the body.
local NONE = string.rep('0', 8)

local function line(name)
  local base = LINE .. name
  return {name = name, r = base .. ':r', b = base .. ':b', v = base .. ':v', d = base .. ':d',
    o = base .. ':o', n = base .. ':n', i = base .. ':i', k = base .. ':k:'}
end

-- check reads each key, so that a key of a foreign type fails the script before it has written anything.
local function check(q)
  redis.call('HLEN', q.b)
  redis.call('HLEN', q.o)
  redis.call('HLEN', q.n)
  redis.call('ZCARD', q.d)
  q.keyed = redis.call('HLEN', q.i)
  q.held = redis.call('ZCARD', q.v)
  q.ready = redis.call('LLEN', q.r)
end

-- stale counts IDs in the list that stand for nothing.
local function stale(q, n)
  if n ~= 0 and redis.call('HINCRBY', q.n, '', n) <= 0 then
    redis.call('HDEL', q.n, '')
  end
end

-- due puts into the list what has become ready by time. What a consumer didn't finish goes to the front.
local function due(q)
  local ids = redis.call('ZRANGEBYSCORE', q.v, '-inf', now, 'LIMIT', 0, 1000)
  if #ids > 0 then
    for _, id in ipairs(ids) do redis.call('HSETNX', q.n, id, 1) end
    redis.call('LPUSH', q.r, unpack(ids))
    redis.call('ZREM', q.v, unpack(ids))
  end
  local late = redis.call('ZRANGEBYSCORE', q.d, '-inf', now, 'LIMIT', 0, 1000)
  if #late > 0 then
    redis.call('RPUSH', q.r, unpack(late))
    redis.call('ZREM', q.d, unpack(late))
  end
  return #ids + #late
end

-- ready reports whether an ID in the list stands for a message. It is in flight or delayed otherwise, or gone.
local function ready(q, id)
  return not redis.call('ZSCORE', q.v, id) and not redis.call('ZSCORE', q.d, id) and redis.call('HGET', q.b, id)
end

-- first returns when the next hidden message becomes ready, or 0.
local function first(q)
  local at = 0
  for _, key in ipairs({q.v, q.d}) do
    local x = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')
    if x[2] and (at == 0 or tonumber(x[2]) < at) then at = tonumber(x[2]) end
  end
  return at
end

-- trim takes from the front of the list what stands for nothing.
local function trim(q, most)
  for n = 1, most do
    local x = redis.call('LINDEX', q.r, 0)
    if not x or #x > 16 or ready(q, x) then return end
    redis.call('LPOP', q.r)
    stale(q, -1)
  end
end

-- sentAt returns when a message was sent.
local function sentAt(whole) return (struct.unpack('>I8', string.sub(whole, 17, 24))) end
