-- Drop from the head of a fair lock's queue those whose give-up time is over.
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

-- Those that wait have counted on a wait that is over sooner: move their give-up times.
local function advance(times, owners, ms)
  for _, owner in ipairs(owners) do
    redis.call('ZINCRBY', times, string.format('%.0f', -ms), owner)
  end
end

-- Nobody waits for who doesn't wait any more; true if it did.
local function step_out(queue, times, owner, share)
  if not redis.call('ZSCORE', times, owner) then return false end
  local behind = redis.call('LRANGE', queue, 0, -1)
  while #behind > 0 and table.remove(behind, 1) ~= owner do end
  redis.call('LREM', queue, 0, owner)
  redis.call('ZREM', times, owner)
  advance(times, behind, share)
  return true
end
