#!lua flags=no-writes
-- Inspect a queue: its sizes, or a part of its jobs.
-- KEYS  see queue.lua
-- ARGV  'sizes'; 'due'; 'oldest', cursor of the groups, cursor of ungrouped jobs (-1: finished);
--       'scan', cursor; 'dead', from, to; 'rows', fields; run id, tag
-- ->    0, and the result of the function with that name
--@ queue.lua

-- The state of the job of this row, and the time at which it is due if it is delayed (else 0).
local function stands(field, row)
  if call('ZSCORE', Z, field) then return 'dead', 0 end
  local number, name = split(field)
  local moment
  if name ~= '' then
    local head = group_of(name)
    local _, before = times(row)
    if number > head then moment = before else moment = call('ZSCORE', D, name) end
  elseif number >= first then
    moment = 0
  else
    moment = call('ZSCORE', P, field)
  end
  if not moment then return 'taken', 0 end
  if moment + 0 > now then return 'delayed', moment + 0 end
  return 'waiting', 0
end

local looks = {}

-- The numbers of jobs, deliveries, dead letters, groups, accepted jobs, done jobs.
function looks.sizes()
  local groups = call('HLEN', G) - 1 - call('ZCARD', R)
  return {call('HLEN', J), call('ZCARD', E), call('ZCARD', Z), math.max(0, groups), accepted, done}
end

-- Microseconds since a job became due (-1: none is), and ms until one can be.
function looks.due()
  local moment = math.huge
  if first < next_ then
    local row = call('HGET', J, first .. ':')
    moment = row and times(row) or now
  end
  for _, key in ipairs({D, P, E}) do
    local head = call('ZRANGE', key, 0, 0, 'WITHSCORES')
    if head[2] then moment = math.min(moment, head[2] + 0) end
  end
  local left = math.max(0, math.min(1000, math.ceil((moment - now) / 1000)))
  return {moment <= now and now - moment or -1, left}
end

-- Of a part of the jobs: the next cursors, and the age of the oldest waiting job (-1: none waits).
function looks.oldest()
  local groups, others, fields = ARGV[2], ARGV[3], {}
  if groups == '0' and others == '0' and first < next_ then fields[1] = first .. ':' end
  if groups ~= '-1' then
    local part = call('HSCAN', G, groups, 'COUNT', 100)
    groups = part[1] == '0' and '-1' or part[1]
    for i = 1, #part[2], 2 do
      local name = part[2][i]
      if name ~= HERE then
        local head, after = struct.unpack(GROUP, part[2][i + 1])
        if not call('ZSCORE', D, name) then head = head + 1 end
        if head < after then fields[#fields + 1] = string.format('%.0f:', head) .. name end
      end
    end
  elseif others ~= '-1' then
    local part = call('ZSCAN', P, others, 'COUNT', 100)
    others = part[1] == '0' and '-1' or part[1]
    for i = 1, #part[2], 2 do fields[#fields + 1] = part[2][i] end
  end
  local oldest = now + 1
  for _, field in ipairs(fields) do
    local row = call('HGET', J, field)
    if row then oldest = math.min(oldest, (times(row))) end
  end
  return {groups, others, oldest <= now and now - oldest or -1}
end

-- The next cursor, and per job its field, its state, its time of acceptance, its id.
function looks.scan()
  local part = call('HSCAN', J, ARGV[2], 'COUNT', 300)
  local reply = {part[1]}
  for i = 1, #part[2], 2 do
    local field, row = part[2][i], part[2][i + 1]
    local at, _, _, bytes = struct.unpack(ROW, row)
    local n = #reply
    reply[n + 1], reply[n + 2] = field, (stands(field, row))
    reply[n + 3], reply[n + 4] = at, string.sub(row, 23, 22 + bytes)
  end
  return reply
end

-- The fields of dead letters in the order of acceptance, each with its id.
function looks.dead()
  local reply = {}
  for _, field in ipairs(call('ZRANGE', Z, ARGV[2], ARGV[3])) do
    local row = call('HGET', J, field)
    local _, _, _, bytes = struct.unpack(ROW, row)
    reply[#reply + 1], reply[#reply + 2] = field, string.sub(row, 23, 22 + bytes)
  end
  return reply
end

-- The time; per job its field, row, state, attempts, microseconds until it is due and until its
-- lease ends, owner, reason.
function looks.rows()
  local reply, owners = {now}, nil
  for i = 2, #ARGV - 2 do
    local field = ARGV[i]
    local row = call('HGET', J, field)
    if row then
      local how, moment = stands(field, row)
      local record, attempts, reason = call('HGET', I, field), 0, ''
      if record then attempts, reason = struct.unpack('>d', record), string.sub(record, 17) end
      local left, owner = 0, ''
      if how == 'taken' then
        if not owners then
          owners = {}
          local all = call('ZRANGE', E, 0, -1, 'WITHSCORES')
          for j = 1, #all, 2 do
            owners[string.sub(all[j], 33)] = {string.sub(all[j], 1, 32), all[j + 1]}
          end
        end
        local loan = owners[field]
        attempts = attempts + 1
        if loan then
          left = loan[2] - now
          owner = (known_take(loan[1]) or LOST)[8]
          -- The lease has expired, and no request has ended the delivery yet.
          if left <= 0 then how, left, owner = 'waiting', 0, '' end
        end
      end
      local delay = math.max(0, moment - now)
      for _, part in ipairs({field, row, how, attempts, delay, left, owner, reason}) do
        reply[#reply + 1] = part
      end
    end
  end
  return reply
end

-- In an inner list, because the port reads a first number as the kind of the reply.
local reply = {0, looks[ARGV[1]]()}
if tag == '' then return reply end
return {tag, reply}
