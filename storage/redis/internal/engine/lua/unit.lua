-- Does many units of work, each all or nothing. The arguments are, for each unit, how many steps it has, and the steps:
--   W container key ETag state want   writes a document: want is '' always, '-' where there is none, else the old ETag
--   B container key ETag name want    the same with what was put under a name of its own
--   X container key want              deletes a document: want is '' or its ETag
--   R table partition key ETag state want, Y table partition key want   the same with rows
--   S queue message key delay         sends
--   D queue ID nonce                  deletes a received or shown message
--   E queue ID nonce new length       hides a received message for that long from now
--   V queue ID nonce new body length  rewrites one
-- It first reads all that a condition speaks of, and whatever could fail by its type, and then writes what can't fail.
-- The reply goes on with a list of failures: the unit, the step and a letter of each (E exists, P precondition, N not
-- found, S stale, L the large state was lost).
--
-- A call is repeated when its connection was cut. Before the units, the arguments are one of the calls that a process has
-- under way at a time, and its number. A repeat is known by the number, and gets the failures that the call had. So it
-- does nothing twice. A call with a smaller number is one that was repeated, and whose first form arrives late.
local field, call = 'c' .. ARGV[6] .. ':' .. process, tonumber(ARGV[7])
local last = redis.call('HGET', P, field)
if not last then last = redis.call('HGET', P .. ':X', field) end
if last then
  local space = string.find(last, ' ')
  local n = tonumber(string.sub(last, 1, space))
  if n == call then
    redis.call('HSET', P, field, last) -- WAIT of newer servers waits for what its own connection has written
    return {now, count, lost, cmsgpack.unpack(string.sub(last, space + 1))}
  end
  if n > call then return redis.error_reply('LATE a later call was done') end
end

local docs, rows, lines, failures = {}, {}, {}, {}
local unused, sends = {}, false -- large states that a condition has refused; whether a step sends

local function fail(unit, step, letter)
  local n = #failures
  failures[n + 1], failures[n + 2], failures[n + 3] = unit, step, letter
end

local function listing(seen, key, command)
  if not seen[key] then
    redis.call(command, key)
    seen[key] = {}
  end
  return seen[key]
end

local function of(name)
  local q = lines[name]
  if not q then
    q = line(name)
    check(q)
    q.push, q.bodies, q.delayed, q.keys, q.acts, q.ids = {}, {}, {}, {}, {}, {}
    lines[name] = q
  end
  return q
end

-- judge returns the letter of a condition that doesn't hold, given the present ETag or false.
local function judge(etag, want)
  if want == '' then return nil end
  if want == '-' then return etag and 'E' or nil end
  return etag ~= want and 'P' or nil
end

local containers, tables, parts = {}, {}, {}

local function document(container, key)
  local name = P .. ':D:' .. container .. '\0' .. key
  local d = docs[name]
  if not d then
    local head = redis.call('GETRANGE', name, 0, 15)
    listing(containers, P .. ':c:' .. container, 'ZCARD')
    d = {name = name, key = key, set = P .. ':c:' .. container, etag = head ~= '' and head}
    docs[name] = d
  end
  return d
end

local function row(tbl, partition, key)
  local base = tbl .. '\0' .. partition
  local name = base .. '\0' .. key
  local r = rows[name]
  if not r then
    listing(tables, P .. ':T:' .. base, 'HLEN')
    listing(parts, P .. ':K:' .. base, 'ZCARD')
    r = {base = base, key = key}
    rows[name] = r
  end
  return r
end

local function rowEtag(r)
  if r.etag == nil then
    local state = redis.call('HGET', P .. ':T:' .. r.base, r.key)
    r.etag = state and string.sub(state, 1, 16)
  end
  return r.etag
end

local read1 = {}
function read1.W(unit, step, at)
  local d = document(ARGV[at], ARGV[at + 1])
  local letter = judge(d.etag, ARGV[at + 4])
  if letter then return fail(unit, step, letter) or true end
  d.etag, d.state, d.big = ARGV[at + 2], ARGV[at + 3], nil
end
function read1.B(unit, step, at)
  local big = P .. ':big:' .. ARGV[at + 3]
  if redis.call('GETRANGE', big, 0, 15) ~= ARGV[at + 2] then return fail(unit, step, 'L') or true end
  local d = document(ARGV[at], ARGV[at + 1])
  local letter = judge(d.etag, ARGV[at + 4])
  if letter then
    unused[#unused + 1] = big
    return fail(unit, step, letter) or true
  end
  d.etag, d.state, d.big = ARGV[at + 2], nil, big
end
function read1.X(unit, step, at)
  local d = document(ARGV[at], ARGV[at + 1])
  local letter = not d.etag and 'N' or judge(d.etag, ARGV[at + 2])
  if letter then return fail(unit, step, letter) or true end
  d.etag, d.state, d.big, d.gone = false, nil, nil, true
end
function read1.R(unit, step, at)
  local r = row(ARGV[at], ARGV[at + 1], ARGV[at + 2])
  local want = ARGV[at + 5]
  local letter = want ~= '' and judge(rowEtag(r), want)
  if letter then return fail(unit, step, letter) or true end
  r.etag, r.state = ARGV[at + 3], ARGV[at + 4]
end
function read1.Y(unit, step, at)
  local r = row(ARGV[at], ARGV[at + 1], ARGV[at + 2])
  local want = ARGV[at + 3]
  if want ~= '*' then
    local letter = not rowEtag(r) and 'N' or judge(r.etag, want)
    if letter then return fail(unit, step, letter) or true end
  end
  r.etag, r.state, r.gone = false, nil, true
end
function read1.S(unit, step, at)
  local q = of(ARGV[at])
  if not sends then
    redis.call('SCARD', P .. ':Q')
    sends = true
  end
  local message, key, delay = ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
  if key == '' and delay == '0' then
    q.push[#q.push + 1] = message
    return
  end
  local id = string.sub(message, 1, 16)
  q.bodies[#q.bodies + 1] = id
  q.bodies[#q.bodies + 1] = message
  if key ~= '' then
    redis.call('SCARD', q.k .. key)
    q.keys[#q.keys + 1] = {id, key}
  end
  if delay == '0' then
    q.push[#q.push + 1] = id
  else
    q.delayed[#q.delayed + 1] = now + tonumber(delay)
    q.delayed[#q.delayed + 1] = id
  end
end
local function act(letter, unit, step, at)
  local q = of(ARGV[at])
  q.acts[#q.acts + 1] = {letter, unit, step, at}
  q.ids[#q.ids + 1] = ARGV[at + 1]
end
function read1.D(unit, step, at) act('D', unit, step, at) end
function read1.E(unit, step, at) act('E', unit, step, at) end
function read1.V(unit, step, at) act('V', unit, step, at) end
local sizes = {W = 5, B = 5, X = 3, R = 6, Y = 4, S = 4, D = 3, E = 5, V = 6}

local units, done, at, last = 0, 0, 8, #ARGV
while at <= last do
  local steps = tonumber(ARGV[at])
  at, units = at + 1, units + 1
  local failed = false
  for step = 1, steps do
    local letter = ARGV[at]
    -- A condition is in the first step of its unit, so nothing of a unit that fails is in the lists.
    if not failed then failed = read1[letter](units, step, at + 1) end
    at = at + 1 + sizes[letter]
  end
  if not failed then done = done + 1 end
end

for _, q in pairs(lines) do
  if #q.ids > 0 then
    q.owners, q.stored = read('HMGET', q.o, q.ids), {}
    for n, id in ipairs(q.ids) do -- a claim is known by its owner; a message that nobody claimed, by its body
      q.stored[n] = q.owners[n] and true or redis.call('HEXISTS', q.b, id) == 1
    end
    if q.keyed > 0 then
      q.keyOf = {}
      for n, key in ipairs(read('HMGET', q.i, q.ids)) do
        if key then
          redis.call('SCARD', q.k .. key)
          q.keyOf[q.ids[n]] = key
        end
      end
    end
  end
end

-- From here on nothing can fail.
for _, d in pairs(docs) do
  if d.state then
    redis.call('SET', d.name, d.state)
    redis.call('ZADD', d.set, 0, d.key)
  elseif d.big then
    redis.call('RENAME', d.big, d.name)
    redis.call('PERSIST', d.name)
    redis.call('ZADD', d.set, 0, d.key)
  elseif d.gone then
    redis.call('DEL', d.name)
    redis.call('ZREM', d.set, d.key)
  end
end

for _, big in ipairs(unused) do redis.call('DEL', big) end

for _, r in pairs(rows) do
  local t, k = tables[P .. ':T:' .. r.base], parts[P .. ':K:' .. r.base]
  if r.state then
    t[#t + 1], t[#t + 2] = r.key, r.state
    k[#k + 1], k[#k + 2] = 0, r.key
  elseif r.gone then
    redis.call('HDEL', P .. ':T:' .. r.base, r.key)
    redis.call('ZREM', P .. ':K:' .. r.base, r.key)
  end
end
for key, args in pairs(tables) do many('HSET', key, args) end
for key, args in pairs(parts) do many('ZADD', key, args) end

-- renew hides a message again, or hands it back.
local function renew(q, id, owner, at)
  local length = tonumber(ARGV[at + 4])
  redis.call('HSET', q.o, id, ARGV[at + 3] .. string.sub(owner, 9))
  if length > 0 then
    if redis.call('ZADD', q.v, now + length, id) == 1 then stale(q, 1) end -- it was in the list
  elseif redis.call('ZREM', q.v, id) == 1 then
    redis.call('HSETNX', q.n, id, 1)
    redis.call('RPUSH', q.r, id)
    q.rings = true
  end
end

local function rewrite(q, id, at)
  local length = tonumber(ARGV[at + 5])
  redis.call('HSET', q.b, id, string.sub(redis.call('HGET', q.b, id), 1, 24) .. ARGV[at + 4])
  redis.call('HSET', q.o, id, ARGV[at + 3])
  redis.call('HSETNX', q.n, id, 1)
  local listed = redis.call('ZREM', q.v, id) == 0
  if length > 0 then
    redis.call('ZADD', q.d, now + length, id)
    q.next = math.min(q.next or now + length, now + length)
    if listed then stale(q, 1) end
  else
    if not listed then redis.call('RPUSH', q.r, id) end
    q.rings = true
  end
end

for name, q in pairs(lines) do
  local gone, owners = {}, {}
  for n, x in ipairs(q.acts) do
    local letter, unit, step, at = x[1], x[2], x[3], x[4]
    local id, nonce = ARGV[at + 1], ARGV[at + 2]
    local owner = owners[id]
    if owner == nil then owner = q.owners[n] end
    local claimed = owner and #owner == 16
    if not q.stored[n] or (owner and string.sub(owner, 1, 8) or NONE) ~= nonce or owner == 'gone' or (letter ~= 'D' and not claimed) then
      fail(unit, step, 'S')
    elseif letter == 'D' then
      gone[#gone + 1], owners[id] = id, 'gone'
    elseif letter == 'E' then
      renew(q, id, owner, at)
      owners[id] = ARGV[at + 3] .. string.sub(owner, 9)
    else
      rewrite(q, id, at)
      owners[id] = ARGV[at + 3]
    end
  end
  if #gone > 0 then
    if q.keyOf then
      for _, id in ipairs(gone) do
        if q.keyOf[id] then redis.call('SREM', q.k .. q.keyOf[id], id) end
      end
      many('HDEL', q.i, gone)
    end
    local hidden = 0
    for from = 1, #gone, 1000 do
      local to = math.min(from + 999, #gone)
      hidden = hidden + redis.call('ZREM', q.v, unpack(gone, from, to))
      if hidden < to then hidden = hidden + redis.call('ZREM', q.d, unpack(gone, from, to)) end
    end
    many('HDEL', q.b, gone)
    many('HDEL', q.o, gone)
    many('HDEL', q.n, gone)
    if #gone > hidden then
      stale(q, #gone - hidden)
      trim(q, #gone + 16)
    end
  end
  if #q.push > 0 or #q.delayed > 0 then redis.call('SADD', P .. ':Q', name) end
  if #q.bodies > 0 then many('HSET', q.b, q.bodies) end
  for _, x in ipairs(q.keys) do
    redis.call('HSET', q.i, x[1], x[2])
    redis.call('SADD', q.k .. x[2], x[1])
  end
  if #q.delayed > 0 then
    many('ZADD', q.d, q.delayed)
    for n = 1, #q.delayed, 2 do q.next = math.min(q.next or q.delayed[n], q.delayed[n]) end
  end
  if #q.push > 0 then
    many('RPUSH', q.r, q.push)
    q.rings = true
  end
  if q.rings then redis.call('PUBLISH', P .. ':l:' .. name, '') end
  if q.next then redis.call('PUBLISH', P .. ':l:' .. name, text(q.next - now)) end
end
changed(done)
redis.call('HSET', P, field, text(call) .. ' ' .. cmsgpack.pack(failures))
return {now, number, lost, failures}
