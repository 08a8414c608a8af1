-- Shows a page of what waits. The arguments: 6 queue, 7 how many, 8 'r' or 'd', 9 the place after which the page
-- begins, 10 the last ID of :r before that place or '', then the IDs that the page before has shown. A place is an
-- index of :r, or a score of :d. The reply goes on with the next place ('' at the end),
-- the ID before it, and for each message the whole, its nonce ('' where none
-- deletes it), its deliveries, and the end of its delay or 0. A message that is shown stands in :r by its ID alone, so
-- that its deletion needs no search.
local q, max, place = line(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[9])
check(q)
local shown, moved = {}, due(q)

local function show(id, whole, till)
  local owner, n = redis.call('HGET', q.o, id), redis.call('HGET', q.n, id)
  for _, x in ipairs({whole, not owner and NONE or #owner == 8 and owner or '', tonumber(n) or 0, till}) do
    shown[#shown + 1] = x
  end
end

local last, known = ARGV[10], {}
for n = 11, #ARGV do known[ARGV[n]] = true end

local function ofList()
  -- Consumers take from the front, and what they don't finish comes back there, so the place may have moved. If the
  -- last message is gone, all before it are.
  if last ~= '' and redis.call('LINDEX', q.r, place - 1) ~= last then
    local at = redis.call('LPOS', q.r, last)
    place = at and at + 1 or 0
  end
  for scanned = 1, 4 do
    local page = redis.call('LRANGE', q.r, place, place + max - 1)
    for _, x in ipairs(page) do
      local whole = x
      last = string.sub(x, 1, 16)
      if #x == 16 then
        whole = ready(q, last)
      else
        redis.call('HSET', q.b, last, x)
        redis.call('LSET', q.r, place, last)
        moved = moved + 1
      end
      place = place + 1
      if whole and not known[last] then show(last, whole, 0) end
    end
    if #page < max then return '' end
    if #shown > 0 then break end
  end
  return text(place)
end

local function ofDelayed()
  local from = place > 0 and '(' .. text(place) or '-inf'
  local page = redis.call('ZRANGEBYSCORE', q.d, from, '+inf', 'WITHSCORES', 'LIMIT', 0, max)
  last = ''
  -- Messages with one end of their delay are one page, so that the next page begins after that end.
  if #page == 2 * max then
    local till = page[#page]
    while page[#page] == till do page[#page], page[#page - 1] = nil, nil end
    for _, id in ipairs(redis.call('ZRANGEBYSCORE', q.d, till, till)) do page[#page + 1], page[#page + 2] = id, till end
  end
  for n = 1, #page, 2 do
    local whole = redis.call('HGET', q.b, page[n])
    if whole then show(page[n], whole, tonumber(page[n + 1])) end
    place = tonumber(page[n + 1])
  end
  return #page >= 2 * max and text(place) or ''
end

local next = ARGV[8] == 'r' and ofList() or ARGV[8] == 'd' and ofDelayed() or ''
changed(moved > 0 and 1 or 0)
return {now, number, lost, next, last, shown}
