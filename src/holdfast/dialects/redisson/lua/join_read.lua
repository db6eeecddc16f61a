-- Take the lock for reading, together with other readers but not with a writer.
-- KEYS: the lock, the tombstone, the lease of this reader. ARGV: lease in ms, owner.
--@ family.lua
--@ tagged.lua

local function join()
  local lock, tombstone, mine = KEYS[1], KEYS[2], KEYS[3]
  local lease, owner = ARGV[1], ARGV[2]
  local found = family(lock)
  if found ~= '' and found ~= 'redisson-rw' then return {3, found} end
  if redis.call('EXISTS', tombstone) == 1 then return {0} end
  local left = redis.call('PTTL', lock)
  if found ~= '' then
    if redis.call('HEXISTS', lock, owner) == 1 then
      local until_ms = redis.call('PTTL', mine)
      if until_ms > 0 then return {1, until_ms, 1} end
    end
    if redis.call('HGET', lock, 'mode') ~= 'read' then
      for _, field in ipairs(redis.call('HKEYS', lock)) do
        if field ~= 'mode' then return {2, left, field, 1} end
      end
      return {2, left, '', 1}
    end
  else
    redis.call('HSET', lock, 'mode', 'read')
  end
  redis.call('HSET', lock, owner, 1)
  redis.call('SET', mine, 1, 'PX', lease)
  if left < tonumber(lease) then redis.call('PEXPIRE', lock, lease) end
  return {1, tonumber(lease), 1}
end

return tagged(join())
