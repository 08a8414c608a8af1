-- A simple list is :L:NAME, what waits, and :H:NAME, a hash of what consumers hold: claim → element. A claim is the
-- consumer's process (8), the end that the element came from (F or L), and a number of the process in 16 digits. The
-- argument 6 is the list's name. Both keys are read first, so that one of a foreign type fails the script.
local L, H = P .. ':L:' .. ARGV[6], P .. ':H:' .. ARGV[6]
local waiting, holding = redis.call('LLEN', L), redis.call('HLEN', H)

local function rings() redis.call('PUBLISH', P .. ':l:list:' .. ARGV[6], '') end

local PUSH = {F = 'LPUSH', L = 'RPUSH'}

-- giveBack puts what claims hold to where it came from. What was taken first comes out first again. It returns how many
-- elements there were.
local function giveBack(claims)
  table.sort(claims, function(a, b) return string.sub(a, 10) > string.sub(b, 10) end)
  local given = 0
  for n, element in ipairs(read('HMGET', H, claims)) do
    if element then
      redis.call(PUSH[string.sub(claims[n], 9, 9)], L, element)
      given = given + 1
    end
  end
  if given > 0 then
    many('HDEL', H, claims)
    rings()
  end
  changed(given)
  return given
end

local function from(n)
  local rest = {}
  for i = n, #ARGV do rest[#rest + 1] = ARGV[i] end
  return rest
end
