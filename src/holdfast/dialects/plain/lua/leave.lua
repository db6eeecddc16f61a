-- Free the key, if it is held with this mark, and signal the clients that wait for a signal.
-- KEYS  key, tombstone; where others wait for a signal: the list for it
-- ARGV  mark, ms of the tombstone (0: none), '', tag
-- ->    1: it was held with this mark; 0: it was not
local mark, reply = ARGV[1], 0
local held = redis.pcall('GET', KEYS[1])
if type(held) == 'string' and string.sub(held, 1, #mark) == mark then
  reply = redis.call('DEL', KEYS[1])
  if KEYS[3] then
    redis.pcall('DEL', KEYS[3])
    redis.pcall('LPUSH', KEYS[3], 1)
    redis.pcall('PEXPIRE', KEYS[3], 1000)
  end
end
if ARGV[2] ~= '0' and type(held) ~= 'table' then
  redis.pcall('SET', KEYS[2], '', 'PX', ARGV[2])
end
if ARGV[4] == '' then return reply end
return {ARGV[4], reply}
