-- Remove waiters whose give-up time has passed from the head of a fair lock's queue.
local function drop_late(queue, times, now)
  while true do
    local head = redis.call('LINDEX', queue, 0)
    if not head then return end
    local until_ms = redis.call('ZSCORE', times, head)
    if until_ms and tonumber(until_ms) > now then return end
    redis.call('LPOP', queue)
    redis.call('ZREM', times, head)
  end
end

-- These waiters counted on a wait that ended early: move their give-up times forward by it.
local function advance(times, owners, ms)
  for _, owner in ipairs(owners) do
    redis.call('ZINCRBY', times, string.format('%.0f', -ms), owner)
  end
end

-- Remove a waiter from the queue, and the time that it added for others; true if it waited.
local function step_out(queue, times, owner, share)
  if not redis.call('ZSCORE', times, owner) then return false end
  local behind = redis.call('LRANGE', queue, 0, -1)
  while #behind > 0 and table.remove(behind, 1) ~= owner do end
  redis.call('LREM', queue, 0, owner)
  redis.call('ZREM', times, owner)
  advance(times, behind, share)
  return true
end
