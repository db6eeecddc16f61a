-- The line, for everything but the uncontended path; each script takes this in behind its own.
--
-- State, the field `s` of the first key, has one of three forms (big-endian, as struct has it):
--   nobody is here          LAST: the last ticket
--   a claim stands alone    LONE: id, ticket, expiry; then "<ttl> <weight> <kind> <capacity> "
--                           and its words: "<bytes of owner> <owner><meta>"
--   else                    MANY, with a field per holder, its id: HELD, and its words
-- The second key: q<seat> = WAITS, and its words; i<id> = seat. The third: the ids of claims that
-- must not enter, by twice the time until when, and one more if they were broken.
-- Times are microseconds, but for a ttl, which is milliseconds.
-- The last key is the guard's record (guard.lua), the last arguments are the run id of the server
-- that the connection leads to ('': no guard) and the tag.
local H, W, X, G = KEYS[1], KEYS[2], KEYS[4] and KEYS[3], KEYS[4] or KEYS[3]
local run, tag = ARGV[#ARGV - 1], ARGV[#ARGV]
local LAST, LONE, MANY = '>d', '>c32dd', '>c1c1I4I4I4I4I4I4dddddd'
local HELD, WAITS = '>ddddI4B', '>c32dddI4Bc0'
-- Where the words begin behind HELD.
local WORDS = 38
local NEVER, LIFE, SHORT = 1e300, 5400000, 600000
-- More than any lease, and than any patience; microseconds.
local AGES, MINUTE, SLACK, SECOND = 2 * 86400000000, 60000000, 10000000, 1000000
-- Up to this number of holders, all are looked through whenever one may have too long a lease.
local FEW = 8
local call = redis.call
local kind, capacity, former, used, holders, waiters = 'l', 1, 0, 0, 0, 0
-- No holder expires before `first`. The head of those who wait: its seat, weight, and expiry (at
-- the soonest; 0: not looked at yet). The last seat. The end of the last tombstone.
local first, head, headweight, headexp, last, tomb = NEVER, 1, 0, 0, 0, 0
-- The last ticket given to this name.
local given = 0
-- A claim that stood alone, until it is written as one of many.
local alone, alonerow
-- What is still to be written, what is to be published then, and how long the keys must live.
local put, pokes, dirty, lives = {}, {}, false, 0
-- So many claims are passed, and served, in one call; the next verb goes on.
local steps, grants = 500, 100
-- Does the guard let nobody in? Looked at when somebody could be.
local shut

-- Keys are given a longer life when a time moves on to the next ten minutes.
local function window(time) return time - time % 600000000 end

-- Can these numbers be ours? What was damaged from outside may bar a name for ever. NaN is unequal to
-- itself, and no comparison with it is true. In the line of a lock each claim weighs 1, and one fits.
local function sound()
  return given >= 0 and given < 9e15 and given % 1 == 0 and used >= 0 and capacity >= 0 and head >= 1
    and head <= last + 1 and last < 1e12 and first == first and headexp == headexp and tomb == tomb
    and (kind ~= 'l' or capacity == 1 and used == holders and used <= 1)
end

-- The latest moment at which a lease may end. One that ends later was given before the clock was set
-- back, or was damaged. Whoever was just served has what is left of a waiter's patience.
local function longest(ttl) return now + math.max(ttl * 1000, SLACK) end

-- Until when a renewed lease lasts, and its ttl: never shorter than it was, unless the clock was set
-- back. The ttl covers what is left, so that a longer one can be told.
local function renewed(before, lease, ttl)
  local until_ = now + ttl * 1000
  if before <= until_ or before > longest(lease) then return until_, ttl end
  return before, math.max(ttl, math.ceil((before - now) / 1000))
end

local function load(raw)
  if not raw then return end
  if #raw == 8 then
    given = struct.unpack(LAST, raw)
  elseif string.sub(raw, 1, 1) == '*' then
    local mark
    mark, kind, capacity, former, used, holders, waiters, headweight,
      first, head, headexp, last, tomb, given = struct.unpack(MANY, raw)
  else
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

-- Seat and row of one who waits, by its id: {id, ticket, expires, ttl, weight, address, words}
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

-- It waits for another while.
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

-- Several at once, by their ids.
local function let_go(ids, weight)
  if alone then alone = nil
  else
    flush()
    for i = 1, #ids, 500 do call('HDEL', H, unpack(ids, i, math.min(#ids, i + 499))) end
  end
  holders, used, dirty = holders - #ids, used - weight, true
  if holders == 0 then first = NEVER end
end

-- A record whose time is over is as good as one that has none.
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

-- Drop who is dead, and serve who fits then.
local function settle()
  if holders == 0 then used, first = 0, NEVER end
  -- An expiry has passed; or none will for long, and leases are long, or the clock was set back, or
  -- something was damaged: then a few are looked through at once, or for a second of each five if
  -- it is within a minute, and many for two seconds of each minute. Each weighs 1 at least.
  if now >= first or used < holders or (holders > 0 and not alone and first > now + SLACK
    and (first > now + AGES or holders <= FEW and (first > now + MINUTE
      or now % (5 * SECOND) < SECOND) or first > now + MINUTE and now % MINUTE < 2 * SECOND)) then
    -- Drop dead holders and find the next expiry: the only scan, once per expiry that passes. What
    -- is derived from the rows is counted again, as one of them may have been removed from outside.
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
          -- It was damaged from outside, so that it is no claim.
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
  -- Those at the head become holders as long as they fit; a grant never touches an expiry.
  while waiters > 0 and steps > 0 and grants > 0 do
    if now < headexp and headexp <= now + SLACK and headweight <= capacity
      and used + headweight > capacity then
      return
    end
    steps = steps - 1
    local row = seated(head)
    if not row then
      -- Step over seats that are empty, because those who sat there left.
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
      -- Every waiter asks sooner than that: the clock was set back.
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

-- Milliseconds until asking again can be of use: at once, if `settle` had to stop before its end.
local function retry()
  if steps <= 0 or grants <= 0 then return 0 end
  return math.max(0, math.min(1000, math.ceil((first - now) / 1000)))
end

local function owner(words)
  local bytes, rest = string.match(words, '^(%d+) (.*)$')
  return string.sub(rest, 1, bytes + 0), string.sub(rest, bytes + 1)
end

-- Why a claim of this id must not enter, if so.
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

-- Nobody hears one who was served: its client has most likely ended.
local function pass_over(row)
  let_go({row[1]}, row[5])
  settle()
  save()
end

-- Tell those who were served; nothing is written after that, but for one whom nobody hears: it
-- is passed over. One only, because it may be a mistake: a client may just connect anew.
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

-- What a verb did before an error is written down, or the counts would be wrong for ever. If one
-- of our keys is something else, the error says which.
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
