#!lua
-- The counts of the guards of a shard.
-- KEYS  the counts of a guard: a hash; names of guards, by the time of the last addition: a zset
-- ARGV  'add', the name, ms for which they are kept, and per count its name and the number to add;
--       or 'names'; or 'sums'. Run id, tag
-- ->    1; 0 and the names; or 0, and names and counts
local call, clock, tag, reply = redis.call, redis.call('TIME'), ARGV[#ARGV], 1
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
if ARGV[1] == 'names' then
  reply = {0, call('ZRANGE', KEYS[2], 0, -1)}
elseif ARGV[1] == 'sums' then
  reply = {0, call('HGETALL', KEYS[1])}
else
  local life = ARGV[3] + 0
  for i = 4, #ARGV - 3, 2 do
    local sum = redis.pcall('HINCRBY', KEYS[1], ARGV[i], ARGV[i + 1])
    -- A count that is no number was damaged from outside.
    if type(sum) == 'table' then call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
  end
  call('PEXPIRE', KEYS[1], life)
  call('ZADD', KEYS[2], now, ARGV[2])
  call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now - life)
  call('PEXPIRE', KEYS[2], life)
end
if tag == '' then return reply end
return {tag, reply}
