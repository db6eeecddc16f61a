-- Take due jobs, for scripts whose first arguments are those of queue_take.lua.
local take, most, ttl, seat = ARGV[1], ARGV[2] + 0, ARGV[3] + 0, ARGV[11]
local pause, burst = ARGV[9] + 0, ARGV[10] + 0
for member in string.gmatch(ARGV[12], '[^\n]+') do call('ZREM', W, member) end

local function attempts_of(fields)
  local found = failures == 1 and call('HMGET', I, unpack(fields)) or {}
  for i = 1, #fields do found[i] = (found[i] and struct.unpack('>d', found[i]) or 0) + 1 end
  return found
end

-- The jobs that this take got before, if they are still delivered.
local function again()
  local known = known_take(take)
  if not known then return end
  local reply, fields, places = {1, known[1], now}, {}, {}
  for i, field in ipairs(fields_of(known)) do
    if call('ZSCORE', E, take .. field) then
      fields[#fields + 1], places[#places + 1] = field, i - 1
    end
  end
  if not fields[1] then return end
  local found, tries = call('HMGET', J, unpack(fields)), attempts_of(fields)
  for i = 1, #fields do
    for _, part in ipairs({fields[i], found[i], tries[i], places[i]}) do reply[#reply + 1] = part end
  end
  return reply
end

local function barred()
  if run == '' then return false end
  local record = call('GET', KEYS[15])
  if record == run then return false end
  local server, ends = string.match(record or '', '^(%S+) (%d+) ')
  if server == run and ends + 0 <= now then
    call('SET', KEYS[15], run)
    return false
  end
  return true
end

-- The number of jobs that may start now by the rate, at most `most`.
local function allowed()
  if pause == 0 then return most end
  local count = 0
  while count < most and start - (burst - 1) * pause <= now do
    start = math.max(start, now) + pause
    count = count + 1
  end
  return count
end

-- At most `count` ungrouped jobs in the order in which they became due: {field, row} each.
local function plain(count)
  local found = {}
  local late = others == 1
    and call('ZRANGEBYSCORE', P, '-inf', now, 'WITHSCORES', 'LIMIT', 0, count) or {}
  local at, least, rounds = 1, 1, 0
  while #found < count and first < next_ and rounds < 100 do
    local fields = {}
    for number = first, math.min(next_, first + math.max(least, count - #found)) - 1 do
      fields[#fields + 1] = number .. ':'
    end
    local got = call('HMGET', J, unpack(fields))
    -- After removals there can be many gaps.
    least, rounds = 500, rounds + 1
    for i = 1, #fields do
      if got[i] then
        local accepted_at = struct.unpack('>d', got[i])
        while late[at] and late[at + 1] + 0 < accepted_at and #found < count do
          found[#found + 1], at = {late[at]}, at + 2
        end
        if #found == count then break end
        found[#found + 1] = {fields[i], got[i]}
      end
      first = first + 1
    end
  end
  while late[at] and #found < count do
    found[#found + 1], at = {late[at]}, at + 2
  end
  local taken = {}
  for _, one in ipairs(found) do
    if not one[2] then
      taken[#taken + 1] = one[1]
      one[2] = call('HGET', J, one[1])
    end
  end
  many('ZREM', P, taken)
  return found
end

-- The first jobs of the first `count` of these groups: {field, row} each.
local function grouped(names, count)
  local found, fields, taken = {}, {}, {}
  if count == 0 then return found end
  local records = call('HMGET', G, unpack(names, 1, count))
  for i = 1, count do
    local head, after, rests = struct.unpack(GROUP, records[i])
    fields[i], taken[i] = string.format('%.0f:', head) .. names[i], names[i]
    if ARGV[5] == '1' then
      call('HSET', G, names[i], struct.pack(GROUP, head, after, now + ARGV[4]))
    end
  end
  many('ZREM', D, taken)
  local got = call('HMGET', J, unpack(fields))
  for i = 1, count do found[i] = {fields[i], got[i]} end
  return found
end

-- Choose due jobs: half from groups, half ungrouped. The two sides take turns with the odd one; if
-- one has too few, the other fills up.
local function lent(count)
  local names = call('ZRANGEBYSCORE', D, '-inf', now, 'LIMIT', 0, count)
  local half = turn == 0 and math.ceil(count / 2) or math.floor(count / 2)
  local here, there = #names, next_ - first
  if others == 1 and there < count - half then
    there = there + call('ZCOUNT', P, '-inf', now)
  end
  local singles = plain(count - math.min(here, math.max(half, count - there)))
  local found = grouped(names, math.min(here, count - #singles))
  if #found ~= #singles then turn = #found > #singles and 1 or 0 end
  return found, singles
end

local function take_in(found, singles)
  local fields, known = {}, 0
  local reply, record, leases = {1, 0, now}, {}, {}
  for _, list in ipairs({found, singles}) do
    for _, one in ipairs(list) do
      fields[#fields + 1] = one[1]
      if string.sub(one[2], 17, 20) ~= '\0\0\0\0' then known = 1 end
    end
  end
  local tries, count = attempts_of(fields), #fields
  last = math.max(last + 1, now)
  reply[2] = last
  local ends = now + ttl
  for i, field in ipairs(fields) do
    local one = found[i] or singles[i - #found]
    local n = #reply
    reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4] = field, one[2], tries[i], i - 1
    leases[#leases + 1], leases[#leases + 2] = ends, take .. field
    record[i] = struct.pack('>I2', #field) .. field
  end
  into(E, leases)
  call('HSET', T, take, struct.pack(TAKE, last, count, ARGV[4], ARGV[5], ARGV[6], ARGV[7], known,
    #ARGV[8]) .. ARGV[8] .. table.concat(record))
  if count > 1 then call('HSET', T, 'c' .. take, count) end
  last = last + count - 1
  soonest = math.min(soonest, ends)
  return reply
end

local function retry()
  local moment = first < next_ and now or math.huge
  for _, key in ipairs({D, P, E}) do
    local head = call('ZRANGE', key, 0, 0, 'WITHSCORES')
    if head[2] then moment = math.min(moment, head[2] + 0) end
  end
  if pause > 0 then moment = math.max(moment, start - (burst - 1) * pause) end
  return math.max(0, math.min(1000, math.ceil((moment - now) / 1000)))
end

local function taken()
  local reply = again()
  if reply then return reply end
  if tomb > now then
    local ends = call('ZSCORE', B, take)
    if ends and ends + 0 > now then return {2, retry()} end
  end
  local before = start
  local count = allowed()
  if count > 0 then
    local some = first < next_ or call('ZCOUNT', D, '-inf', now) > 0
      or (others == 1 and call('ZCOUNT', P, '-inf', now) > 0)
    if some and barred() then
      start = before
      return {6}
    end
    local found, singles
    if some then found, singles = lent(count) end
    local got = found and #found + #singles or 0
    if got < count and pause > 0 then
      start = before
      for _ = 1, got do start = math.max(start, now) + pause end
    end
    if got > 0 then return take_in(found, singles) end
  end
  if seat ~= '' then
    call('ZREMRANGEBYSCORE', W, '-inf', now - PATIENCE)
    call('ZADD', W, now, take .. ' ' .. seat)
    call('PEXPIRE', W, 5000)
    waits = now + PATIENCE
  end
  return {2, retry()}
end

