#!lua flags=allow-oom
-- Release claims that are alone in their lines. Other claims get -1 and are left to leave.lua.
-- KEYS  the state of each claim's line
-- ARGV  the ids in one; run id, tag
-- ->    per claim: 1: its lease had not expired; 0: it had; -1: nothing was done, call leave.lua
local call, sub = redis.call, string.sub
local clock = call('TIME')
local now = clock[1] * 1000000 + clock[2]
local answers = {}
for i, key in ipairs(KEYS) do
  local found = redis.pcall('HGET', key, 's')
  answers[i] = -1
  if found and #found > 50 and sub(found, 1, 32) == sub(ARGV[1], i * 32 - 31, i * 32) then
    call('HSET', key, 's', sub(found, 33, 40))
    answers[i] = struct.unpack('>d', found, 41) > now and 1 or 0
  end
end
if ARGV[3] == '' then return answers end
return {ARGV[3], answers}
