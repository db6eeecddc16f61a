-- The token that holds the key, and the time left.
-- KEYS  key
-- ARGV  '', tag
-- ->    0: free; {token, ms} (-1: without a TTL); {9, family}: the key is of another family
--@ ../../lua/family.lua
local reply = 0
local held = redis.pcall('GET', KEYS[1])
if type(held) == 'table' then
  reply = {9, family(KEYS[1])}
elseif held then
  local left = redis.call('PTTL', KEYS[1])
  reply = stamped(held, left) and {9, 'timestamp'} or {held, left}
end
if ARGV[2] == '' then return reply end
return {ARGV[2], reply}
