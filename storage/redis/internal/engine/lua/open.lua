-- Opens a store, or makes one. The arguments: 1 the mark of a new store, 2 its format, 3 'yes' if a store may be made.
-- The reply: its mark and format ('' if there is no store).
local own = redis.call('HMGET', KEYS[1], 'mark', 'format')
if own[1] and own[2] then return {own[1], own[2]} end
if redis.call('EXISTS', KEYS[1]) == 1 then return {'', 'foreign'} end
if ARGV[3] ~= 'yes' then return {'', ''} end
redis.call('HSET', KEYS[1], 'mark', ARGV[1], 'format', ARGV[2], 'seen', 0, 'ahead', 0, 'seq', 0)
return {ARGV[1], ARGV[2]}
