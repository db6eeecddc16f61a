-- Take a lock if it is free. A second request of the same owner changes nothing.
-- KEYS: the lock, the tombstone of this claim, the counter of tokens.
-- ARGV: lease in ms, owner, '1' if each grant draws a token.
--@ family.lua
--@ tagged.lua

local function join()
  local lock, tombstone, tokens = KEYS[1], KEYS[2], KEYS[3]
  local lease, owner, fenced = ARGV[1], ARGV[2], ARGV[3] == '1'
  local found = family(lock)
  if found ~= '' and found ~= 'redisson' then return {3, found} end
  if redis.call('EXISTS', tombstone) == 1 then return {0} end
  if found == '' then
    redis.call('HSET', lock, owner, 1)
    redis.call('PEXPIRE', lock, lease)
    return {1, tonumber(lease), fenced and redis.call('INCR', tokens) or 1}
  end
  local left = redis.call('PTTL', lock)
  if redis.call('HEXISTS', lock, owner) == 1 then
    return {1, left, fenced and tonumber(redis.call('GET', tokens) or 1) or 1}
  end
  return {2, left, redis.call('HKEYS', lock)[1], 1}
end

return tagged(join())
