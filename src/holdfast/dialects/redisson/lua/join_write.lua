-- Take the lock for writing, alone. KEYS: the lock, the tombstone. ARGV: lease in ms, owner (of
-- writing).
--@ family.lua
--@ tagged.lua

local function join()
  local lock, tombstone = KEYS[1], KEYS[2]
  local lease, owner = ARGV[1], ARGV[2]
  local found = family(lock)
  if found ~= '' and found ~= 'redisson-rw' then return {3, found} end
  if redis.call('EXISTS', tombstone) == 1 then return {0} end
  if found == '' then
    redis.call('HSET', lock, 'mode', 'write', owner, 1)
    redis.call('PEXPIRE', lock, lease)
    return {1, tonumber(lease), 1}
  end
  local left = redis.call('PTTL', lock)
  if redis.call('HEXISTS', lock, owner) == 1 then return {1, left, 1} end
  for _, field in ipairs(redis.call('HKEYS', lock)) do
    if field ~= 'mode' then return {2, left, field, 1} end
  end
  return {2, left, '', 1}
end

return tagged(join())
