-- The code for lines. Each script includes it after its own first part.
--
-- State, the field `s` of the first key, has one of three forms (big-endian, packed by `struct`):
--   no claim                LAST: the last ticket
--   one holder, no waiter   LONE: id, ticket, expiry; then "<ttl> <weight> <kind> <capacity> "
--                           and its words: "<bytes of owner> <owner><meta>"
--   else                    MANY, and per holder a field, named by its id: HELD, and its words
-- The second key: q<seat> = WAITS and the words of the waiter; i<id> = its seat. The third key:
-- tombstones, a zset of claim ids. A score is twice the time at which the tombstone ends, plus 1 if
-- the claim was broken.
-- The last key is the record of recovery.lua. The last arguments are the run id of the server
-- that the connection leads to ('': no recovery) and the tag.
local H, W, X, G = KEYS[1], KEYS[2], KEYS[4] and KEYS[3], KEYS[4] or KEYS[3]
local run, tag = ARGV[#ARGV - 1], ARGV[#ARGV]
local LAST, LONE, MANY = '>d', '>c32dd', '>c1c1I4I4I4I4I4I4dddddd'
local HELD, WAITS = '>ddddI4B', '>c32dddI4Bc0'
-- Offset of the words after HELD.
local WORDS = 38
local NEVER, LIFE, SHORT = 1e300, 5400000, 600000
-- Microseconds. AGES is more than any lease, SLACK more than any waiter TTL.
local AGES, MINUTE, SLACK, SECOND = 2 * 86400000000, 60000000, 10000000, 1000000
-- Maximum number of holders that are all checked often for a lease that is too long (`settle`).
local FEW = 8
local call = redis.call
local kind, capacity, former, used, holders, waiters = 'l', 1, 0, 0, 0, 0
-- No holder expires before `first`. The first waiter: its seat, its weight, and its earliest expiry
-- (0: not read yet). The last seat. The end of the last tombstone.
local first, head, headweight, headexp, last, tomb = NEVER, 1, 0, 0, 0, 0
-- The last ticket of this name.
local given = 0
-- The id and the row of a single holder, until it is stored in the form MANY.
local alone, alonerow
-- Fields to write, waiters to wake after that, whether the state changed, and the least TTL of the
-- first key in milliseconds.
local put, pokes, dirty, lives = {}, {}, false, 0
-- Maximum number of waiters that one call passes, and that it grants. The next verb continues.
local steps, grants = 500, 100
-- Whether recovery grants nothing now. Read when the first waiter could be granted.
local shut

-- The start of the ten minutes that contain this time. A key's TTL is extended once in each.
local function window(time) return time - time % 600000000 end

-- Whether these numbers are possible. A state that was damaged from outside can block a name
-- permanently. NaN is unequal to itself, and no comparison with it is true. In the line of a lock
-- each claim weighs 1, and one claim fits.
local function sound()
  return given >= 0 and given < 9e15 and given % 1 == 0 and used >= 0 and capacity >= 0 and head >= 1
    and head <= last + 1 and last < 1e12 and first == first and headexp == headexp and tomb == tomb
    and (kind ~= 'l' or capacity == 1 and used == holders and used <= 1)
end

-- The latest possible end of a lease. A lease that ends later was granted before the clock was set
-- back, or was damaged. A claim that was just granted has the rest of its waiter TTL as its lease.
local function longest(ttl) return now + math.max(ttl * 1000, SLACK) end

-- The end of a renewed lease, and its ttl. The end never moves back, unless the clock was set back.
-- The ttl covers the time that is left, so that a lease that is too long can be recognised.
local function renewed(before, lease, ttl)
  local until_ = now + ttl * 1000
  if before <= until_ or before > longest(lease) then return until_, ttl end
  return before, math.max(ttl, math.ceil((before - now) / 1000))
end

--@ layout.lua

local function load(raw)
  if not raw then return end
  if #raw == 8 then
    given = struct.unpack(LAST, raw)
  elseif string.sub(raw, 1, 1) == '*' then
    local mark
    mark, kind, capacity, former, used, holders, waiters, headweight,
      first, head, headexp, last, tomb, given = struct.unpack(MANY, raw)
  else
    layout(raw)
    local at, ttl, weight, words
    alone, given, first, at = struct.unpack(LONE, raw)
    ttl, weight, kind, capacity, words =
      string.match(raw, '^(%d+) (%d+) (%a) (%d+) (.*)$', at)
    holders, used, capacity = 1, weight + 0, capacity + 0
    alonerow = struct.pack(HELD, given, first, given, ttl, weight, 0) .. words
    if not (first <= longest(ttl)) then
      first, dirty = longest(ttl), true
      alonerow = struct.pack(HELD, given, first, given, ttl, weight, 0) .. words
    end
  end
  if not sound() then error('the state of the line is damaged') end
end

local function flush()
  if put[1] then
    call('HSET', H, unpack(put))
    put = {}
  end
end

-- The row of a holder, by its id.
local function holder(id)
  if alone then return id == alone and alonerow end
  flush()
  return holders > 0 and call('HGET', H, id)
end

-- The row of a waiter by its seat: {id, ticket, expires, ttl, weight, address, words}. `waiter`
-- finds seat and row by the id.
local function seated(seat)
  local raw = call('HGET', W, 'q' .. seat)
  if not raw then return end
  local row = {struct.unpack(WAITS, raw)}
  row[7] = string.sub(raw, row[7])
  return row
end

local function waiter(id)
  local seat = waiters > 0 and call('HGET', W, 'i' .. id)
  if not seat then return end
  return seat + 0, seated(seat)
end

local function seat_down(seat, row, renew)
  call('HSET', W, 'i' .. row[1], seat, 'q' .. seat, struct.pack(WAITS, row[1], row[2], row[3],
    row[4], row[5], #row[6], row[6]) .. row[7])
  if renew then call('PEXPIRE', W, LIFE) end
end

-- Renew a waiter.
local function stay(seat, row, patience, address)
  local before = row[3]
  row[3] = now + patience * 1000
  if address ~= '' then row[6] = address end
  seat_down(seat, row, window(before) ~= window(row[3]))
end

local function rise(seat, id)
  call('HDEL', W, 'i' .. id, 'q' .. seat)
  waiters, dirty = waiters - 1, true
  if seat == head then head, headexp = head + 1, 0 end
end

local function hold(id, row, expires, weight)
  put[#put + 1] = id
  put[#put + 1] = row
  holders, used, dirty = holders + 1, used + weight, true
  if expires < first then first = expires end
end

-- Remove holders by their ids; `weight` is their sum.
local function let_go(ids, weight)
  if alone then alone = nil
  else
    flush()
    for i = 1, #ids, 500 do call('HDEL', H, unpack(ids, i, math.min(#ids, i + 499))) end
  end
  holders, used, dirty = holders - #ids, used - weight, true
  if holders == 0 then first = NEVER end
end

-- A record whose time has passed counts as one without a time.
local function barred()
  if shut == nil and run ~= '' then
    local record = call('GET', G)
    shut = record ~= run
    local server, ends = string.match(record or '', '^(%S+) (%d+) ')
    if server == run and ends + 0 <= now then
      call('SET', G, run)
      shut = false
    end
  end
  return shut
end

-- Remove expired holders, then grant waiters that fit.
local function settle()
  if holders == 0 then used, first = 0, NEVER end
  -- Scan the holders if an expiry has passed, or if the counts are wrong (a claim weighs at least
  -- 1). Scan also if the next expiry is too far away: leases are long, or the clock was set back,
  -- or the state was damaged. If it is more than a minute away, up to FEW holders are scanned each
  -- time, and more of them for two seconds of each minute. Within a minute, up to FEW are scanned
  -- for one second of five.
  if now >= first or used < holders or (holders > 0 and not alone and first > now + SLACK
    and (first > now + AGES or holders <= FEW and (first > now + MINUTE
      or now % (5 * SECOND) < SECOND) or first > now + MINUTE and now % MINUTE < 2 * SECOND)) then
    -- Remove expired holders and find the next expiry: this is the only scan. The counts are made
    -- again from the rows, because a row may have been removed from outside.
    local dead, weight = {}, 0
    if alone then
      dead, weight = {alone}, used
    else
      flush()
      local all = call('HGETALL', H)
      first, holders, used = NEVER, 0, 0
      for i = 1, #all, 2 do
        local row = #all[i] == 32 and #all[i + 1] >= WORDS and all[i + 1]
        local ticket, expires, since, ttl, heavy, leaving
        if row then ticket, expires, since, ttl, heavy, leaving = struct.unpack(HELD, row) end
        if #all[i] == 32 and not (row and ticket >= 0 and ticket < 9e15 and heavy >= 1) then
          -- It was damaged from outside and is no claim.
          call('HDEL', H, all[i])
        elseif row then
          holders, used = holders + 1, used + heavy
          if expires > longest(ttl) then
            expires = longest(ttl)
            put[#put + 1] = all[i]
            put[#put + 1] = struct.pack(HELD, ticket, expires, since, ttl, heavy, leaving)
              .. string.sub(all[i + 1], WORDS)
          end
          if not (expires > now) then
            dead[#dead + 1], weight = all[i], weight + heavy
          elseif expires < first then
            first = expires
          end
        end
      end
    end
    dirty = true
    if dead[1] then let_go(dead, weight) end
  end
  -- Waiters at the head become holders as long as they fit. A grant never changes an expiry.
  while waiters > 0 and steps > 0 and grants > 0 do
    if now < headexp and headexp <= now + SLACK and headweight <= capacity
      and used + headweight > capacity then
      return
    end
    steps = steps - 1
    local row = seated(head)
    if not row then
      -- Skip empty seats, whose waiters have left.
      local names = {}
      for seat = head + 1, math.min(head + 256, last) do names[#names + 1] = 'q' .. seat end
      local step = #names + 1
      if names[1] then
        local rows = call('HMGET', W, unpack(names))
        for i = 1, #names do
          if rows[i] then step = i break end
        end
      end
      head, headexp, dirty = math.min(head + step, last + 1), 0, true
      if head > last then waiters = 0 end
    elseif not (row[3] > now) or row[5] > capacity then
      rise(head, row[1])
    elseif row[3] > now + SLACK then
      -- No waiter TTL is that long: the clock was set back.
      row[3] = now + 3 * SECOND
      seat_down(head, row)
      headexp, dirty = 0, true
    elseif used + row[5] > capacity then
      headexp, headweight, dirty = row[3], row[5], true
      return
    elseif barred() then
      return
    else
      rise(head, row[1])
      hold(row[1], struct.pack(HELD, row[2], row[3], now, row[4], row[5], 0) .. row[7],
        row[3], row[5])
      pokes[#pokes + 1] = row
      grants = grants - 1
    end
  end
end

-- Milliseconds until the next request can have an effect; 0 if `settle` stopped at a limit.
local function retry()
  if steps <= 0 or grants <= 0 then return 0 end
  return math.max(0, math.min(1000, math.ceil((first - now) / 1000)))
end

local function owner(words)
  local bytes, rest = string.match(words, '^(%d+) (.*)$')
  return string.sub(rest, 1, bytes + 0), string.sub(rest, bytes + 1)
end

-- The reason why a claim with this id must not enter; nil if it may.
local function tombstone(id)
  if tomb <= now then return end
  local score = call('ZSCORE', X, id)
  if not score or (score - score % 2) / 2 <= now then return end
  return score % 2 == 1 and 'broken' or 'released'
end

local function save()
  if dirty then
    if holders + waiters == 0 and tomb <= now then
      flush()
      call('HSET', H, 's', struct.pack(LAST, given))
    else
      if alone then
        put[#put + 1] = alone
        put[#put + 1] = alonerow
      end
      put[#put + 1] = 's'
      put[#put + 1] = struct.pack(MANY, '*', kind, capacity, former, used, holders, waiters,
        headweight, first, head, headexp, last, tomb, given)
      flush()
    end
    alone, dirty = nil, false
  end
  if lives > 0 and call('PTTL', H) < lives then call('PEXPIRE', H, lives) end
end

-- A granted claim whose address has no listener: its client has most likely ended.
local function pass_over(row)
  let_go({row[1]}, row[5])
  settle()
  save()
end

-- Wake the granted waiters. Nothing is written after that, with one exception: a claim whose
-- address has no listener is passed over. Only one, because it can be a mistake: a client may be
-- reconnecting.
local function poke(pass)
  local passed
  for _, row in ipairs(pokes) do
    if row[6] ~= '' then
      local publish = string.sub(row[6], 1, 1) == '{' and 'SPUBLISH' or 'PUBLISH'
      local heard = redis.pcall(publish, row[6], row[1] .. string.format(' %.0f', row[2]))
      if heard == 0 then passed = passed or row end
    end
  end
  pokes = {}
  if passed and pass then
    pass_over(passed)
    poke(false)
  end
end

-- Run a verb and save, also after an error: or the counts would stay wrong. If one of the keys has
-- a wrong type, the error names the key.
local function answer(verb, final)
  local done, reply = pcall(verb)
  local saved, wrong = pcall(save)
  if not (done and saved) then
    if not done then wrong = reply end
    if type(wrong) ~= 'table' then wrong = {err = wrong} end
    if string.find(wrong.err, 'WRONGTYPE', 1, true) then
      for i, kinds in ipairs({'hash', 'hash', X and 'zset' or 'string', 'string'}) do
        local there = KEYS[i] and call('TYPE', KEYS[i]).ok
        if there and there ~= 'none' and there ~= kinds then
          local text = ' is a ' .. there .. ', not a ' .. kinds
          wrong = {err = 'WRONGTYPE the key ' .. KEYS[i] .. text}
          break
        end
      end
    end
    if string.find(wrong.err, 'user_script', 1, true) then
      wrong.err = wrong.err .. ' (key ' .. H .. ')'
    end
    return wrong
  end
  if pokes[1] then poke(final ~= false) end
  if tag == '' then return reply end
  return {tag, reply}
end
