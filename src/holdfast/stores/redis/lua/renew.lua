#!lua flags=allow-oom
-- Renew held claims. A claim that needs more than that gets -1 and is left to stand.lua.
-- KEYS  the state of each claim's line
-- ARGV  claim id and ttl ms of each, run id, tag
-- ->    per claim: its ticket; -1: call stand.lua; a text: an error
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local call, sub = redis.call, string.sub

-- A lease that is longer than requested stays. One that is longer than any that was granted shows
-- that the clock was set back: stand.lua repairs it.
local function longer(before, lease, ttl)
  if before > now + math.max(lease * 1000, 10000000) then return end
  return before, math.max(ttl, math.ceil((before - now) / 1000))
end

local function renew(key, id, ttl)
  local state = call('HGET', key, 's')
  if not state then return -1 end
  local until_ = now + ttl * 1000
  local before, ticket
  if #state > 50 and sub(state, 1, 32) == id then
    ticket, before = struct.unpack('>dd', state, 33)
    if before <= now then return -1 end
    if before > until_ then
      until_, ttl = longer(before, string.match(state, '^%d+', 49) or 0, ttl)
      if not until_ then return -1 end
    end
    call('HSET', key, 's', id .. struct.pack('>dd', ticket, until_) .. ttl
      .. sub(state, (string.find(state, ' ', 49, true))))
  elseif #state > 50 and sub(state, 1, 1) == '*' then
    local row = call('HGET', key, id)
    if not row then return -1 end
    local since, lease, leaving, _
    ticket, before, since, lease, _, leaving = struct.unpack('>ddddI4B', row)
    local waiters, _, first, _, headexp = struct.unpack('>I4I4ddd', state, 19)
    -- Another claim may have to be reaped or granted, too.
    if leaving == 1 or before <= now or (waiters > 0 and
      (now >= first or (headexp > 0 and now >= headexp))) then
      return -1
    end
    if before > until_ then
      until_, ttl = longer(before, lease, ttl)
      if not until_ then return -1 end
    end
    call('HSET', key, id, struct.pack('>dddd', ticket, until_, since, ttl) .. sub(row, 33))
  else
    return -1
  end
  if until_ - until_ % 6e8 ~= before - before % 6e8 or ttl + 0 > 600000 then
    local lives = ttl + 5400000
    if call('PTTL', key) < lives then call('PEXPIRE', key, lives) end
  end
  return ticket
end

local answers = {}
for i, key in ipairs(KEYS) do
  local done, answer = pcall(renew, key, ARGV[i * 2 - 1], ARGV[i * 2])
  if not done then
    answer = type(answer) == 'table' and answer.err or answer
    if string.find(answer, 'WRONGTYPE', 1, true) then
      answer = 'WRONGTYPE the key ' .. key .. ' is a ' .. call('TYPE', key).ok .. ', not a hash'
    end
  end
  answers[i] = answer
end
local tag = ARGV[#ARGV]
if tag == '' then return answers end
return {tag, answers}
