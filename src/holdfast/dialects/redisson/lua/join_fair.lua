-- Take a fair lock if it is free and it is the owner's turn; otherwise, if it waits, enter the
-- queue.
-- KEYS: the lock, the tombstone, the queue, the give-up times.
-- ARGV: lease in ms, owner, '1' to wait, ms that its place adds to the waits behind it, '1' for
-- Redisson 3.8.1.
--@ family.lua
--@ clock.lua
--@ queue.lua
--@ tagged.lua

local function join()
  local lock, tombstone, queue, times = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
  local lease, owner, waits = ARGV[1], ARGV[2], ARGV[3] == '1'
  local share, old = tonumber(ARGV[4]), ARGV[5] == '1'
  local found = family(lock)
  if found ~= '' and found ~= 'redisson' then return {3, found} end
  if redis.call('EXISTS', tombstone) == 1 then return {0} end
  local now = now_ms()
  -- An owner that asks again is alive and isn't dropped, whatever the peers have subtracted from
  -- its give-up time. The time never moves back: owners before it subtract what was added for them.
  local mine = redis.call('ZSCORE', times, owner)
  if mine and now + share > tonumber(mine) then
    redis.call('ZADD', times, string.format('%.0f', now + share), owner)
  end
  drop_late(queue, times, now)
  if found == 'redisson' and redis.call('HEXISTS', lock, owner) == 1 then
    return {1, redis.call('PTTL', lock), 1}
  end
  local head = redis.call('LINDEX', queue, 0)
  if found == '' and (not head or head == owner) then
    redis.call('ZREM', times, owner)
    if head then
      redis.call('LPOP', queue)
      if not old then advance(times, redis.call('ZRANGE', times, 0, -1), share) end
    end
    redis.call('HSET', lock, owner, 1)
    redis.call('PEXPIRE', lock, lease)
    return {1, tonumber(lease), 1}
  end
  local left = redis.call('PTTL', lock)
  local holder = found == 'redisson' and redis.call('HKEYS', lock)[1] or head
  if not waits then return {2, left, holder, 1} end
  if not mine then
    -- Redisson adds the lease of the holder, because its waiters don't ask again before that ends.
    -- holdfast asks each second and adds none, so the place of a dead owner is soon passed over.
    local before = redis.call('LINDEX', queue, old and 0 or -1)
    local ahead = before and tonumber(redis.call('ZSCORE', times, before) or now) - now or 0
    redis.call('ZADD', times, string.format('%.0f', now + math.max(ahead, 0) + share), owner)
    redis.call('RPUSH', queue, owner)
  end
  return {2, left, holder, redis.call('LLEN', queue)}
end

return tagged(join())
