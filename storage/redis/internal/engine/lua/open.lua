-- Opens a store, or makes one. The arguments: 1 the mark of a new store, 2 its format, 3 'yes' if a store may be made,
-- 4 the time of a store in virtual time, or ''. The reply: the store's mark and format ('' if there is no store), and
-- the store's time. Where the user lacks a right, the format is 'rights', and the third reply names the commands.
local P = KEYS[1]
local own = redis.call('HMGET', P, 'mark', 'format', 'seen', 'ahead')

-- A script that fails half-way by a missing right leaves what it has written. So each command that a script calls is
-- tried here first, on a key of its own that is gone in the end.
local try, refused = P .. ':try', {}
local tries = ARGV[3] ~= 'yes' and {} or {
  {'DEL', try}, {'EXISTS', try}, {'PUBLISH', P .. ':l:', ''}, {'PUBSUB', 'NUMSUB', P .. ':p:'}, {'SMEMBERS', try},
  {'HSET', try, 'a', '1', 'b', '1'}, {'HSETNX', try, 'a', '1'}, {'HINCRBY', try, 'a', '1'}, {'HGET', try, 'a'},
  {'HMGET', try, 'a'}, {'HEXISTS', try, 'a'}, {'HLEN', try}, {'HSCAN', try, '0'}, {'HKEYS', try}, {'HGETALL', try}, {'HDEL', try, 'b'}, {'DEL', try},
  {'RPUSH', try, 'a', 'b'}, {'LPUSH', try, 'c'}, {'LSET', try, '0', 'd'}, {'LINDEX', try, '0'}, {'LLEN', try},
  {'LPOS', try, 'a'}, {'LRANGE', try, '0', '0'}, {'LPOP', try, '1'}, {'RPOP', try}, {'DEL', try},
  {'ZADD', try, '0', 'a', '0', 'b'}, {'ZCARD', try}, {'ZCOUNT', try, '0', '0'}, {'ZRANGE', try, '0', '0'},
  {'ZRANGEBYLEX', try, '-', '+'}, {'ZRANGEBYSCORE', try, '0', '0'}, {'ZSCORE', try, 'a'}, {'ZREM', try, 'b'},
  {'DEL', try}, {'SADD', try, 'a', 'b'}, {'SCARD', try}, {'SMEMBERS', try}, {'SREM', try, 'b'}, {'DEL', try},
  {'SET', try, 'a', 'EX', '60'}, {'GET', try}, {'GETRANGE', try, '0', '0'}, {'STRLEN', try}, {'RENAME', try, try},
  {'PERSIST', try}, {'DEL', try},
}
for _, x in ipairs(tries) do
  local r = redis.pcall(unpack(x))
  if type(r) == 'table' and r.err then refused[#refused + 1] = string.lower(x[1]) end
end
if #refused > 0 then return {'', 'rights', table.concat(refused, ' ')} end

local now = tonumber(ARGV[4])
if not now then
  local t = redis.call('TIME')
  now = t[1] * 1000000 + t[2]
end
if own[1] and own[2] then return {own[1], own[2], math.max(tonumber(own[3] or 0), now + tonumber(own[4] or 0))} end
if redis.call('EXISTS', P) == 1 then return {'', 'foreign', 0} end
if ARGV[3] ~= 'yes' then return {'', '', 0} end
redis.call('HSET', P, 'mark', ARGV[1], 'format', ARGV[2], 'seen', 0, 'ahead', 0)
return {ARGV[1], ARGV[2], now}
