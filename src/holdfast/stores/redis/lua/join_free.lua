-- Acquire several names in one step: all of them, or none if one of the lines may not be empty.
-- KEYS  the state of each line; then the recovery record of each of their buckets
-- ARGV  ttl ms of each claim, and its weight, kind, capacity and words; their ids in one; run id, tag
-- ->    the ticket of each: held, with the whole ttl
--       0: nothing was done
--       {6}: nothing was done; call recovery.lua first
local call = redis.call
local clock = call('TIME')
local now = clock[1] * 1000000 + clock[2]
local many = (#ARGV - 3) / 2
local ids, run, tag = ARGV[#ARGV - 2], ARGV[#ARGV - 1], ARGV[#ARGV]

local function answer(reply)
  if tag == '' then return reply end
  return {tag, reply}
end

if run ~= '' then
  for i = many + 1, #KEYS do
    if redis.pcall('GET', KEYS[i]) ~= run then return answer({6}) end
  end
end
-- A state of 8 bytes is an empty line without tombstones. Everything else is left to join.lua,
-- which also reports a key of a wrong type.
local before = {}
for i = 1, many do
  local found = redis.pcall('HGET', KEYS[i], 's')
  if found and #found ~= 8 then return answer(0) end
  before[i] = found and struct.unpack('>d', found) or 0
end
local tickets = {}
for i = 1, many do
  local ticket, ttl = now, ARGV[i * 2 - 1]
  if before[i] >= now then ticket = before[i] + 1 end
  if before[i] == 0 and call('HLEN', KEYS[i]) > 0 then call('DEL', KEYS[i]) end
  call('HSET', KEYS[i], 's', string.sub(ids, i * 32 - 31, i * 32)
    .. struct.pack('>dd', ticket, now + ttl * 1000) .. ttl .. ' ' .. ARGV[i * 2])
  if ticket - ticket % 6e8 ~= before[i] - before[i] % 6e8 or ttl + 0 > 600000 then
    call('PEXPIRE', KEYS[i], ttl + 5400000)
  end
  tickets[i] = ticket
end
return answer(tickets)
