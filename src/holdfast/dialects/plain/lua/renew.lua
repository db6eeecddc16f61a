-- Renew the key, if it is still held with this mark.
-- KEYS  key
-- ARGV  mark, PEXPIRE or EXPIRE, ttl, '', tag
-- ->    1: done; 0: it isn't held with this mark
local mark, reply = ARGV[1], 0
local held = redis.pcall('GET', KEYS[1])
if type(held) == 'string' and string.sub(held, 1, #mark) == mark then
  reply = redis.call(ARGV[2], KEYS[1], ARGV[3])
end
if ARGV[5] == '' then return reply end
return {ARGV[5], reply}
