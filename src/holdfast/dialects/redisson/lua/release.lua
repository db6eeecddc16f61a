-- The end of each kind of hold. `to`: the keys of the name, the channels, and the owner.
local function say(channel, message)
  redis.pcall('PUBLISH', channel, message)
end

-- Wake all clients that listen at the lock, or the head of the queue of a fair one.
local function wake(to)
  if to.fair then
    drop_late(to.queue, to.times, now_ms())
    local head = redis.call('LINDEX', to.queue, 0)
    if head then say(to.said .. ':' .. head, '0') end
  else
    say(to.said, '0')
  end
end

local function end_lock(to)
  local count = redis.call('HGET', to.lock, to.owner)
  if not count then return 0 end
  if tonumber(count) > 1 then
    redis.call('HINCRBY', to.lock, to.owner, -1)
    redis.call('PEXPIRE', to.lock, to.lease)
  else
    redis.call('DEL', to.lock)
    wake(to)
  end
  return 1
end

-- Milliseconds for which the remaining readers still hold: the longest of their leases.
local function longest(to)
  local most = -2
  local fields = redis.call('HGETALL', to.lock)
  for at = 1, #fields, 2 do
    if fields[at] ~= 'mode' then
      for level = tonumber(fields[at + 1]) or 1, 1, -1 do
        local key = to.leases .. ':' .. fields[at] .. ':rwlock_timeout:' .. level
        most = math.max(most, redis.call('PTTL', key))
      end
    end
  end
  return most
end

local function end_read(to)
  local count = redis.call('HGET', to.lock, to.owner)
  if not count then return 0 end
  local mine = to.leases .. ':' .. to.owner .. ':rwlock_timeout:' .. count
  local there = redis.call('PTTL', mine) > 0 and 1 or 0
  if tonumber(count) > 1 then
    redis.call('HINCRBY', to.lock, to.owner, -1)
  else
    redis.call('HDEL', to.lock, to.owner)
  end
  redis.call('DEL', mine)
  if redis.call('HLEN', to.lock) > 1 then
    if redis.call('HGET', to.lock, 'mode') == 'write' then return there end
    local left = longest(to)
    if left > 0 then
      redis.call('PEXPIRE', to.lock, left)
      return there
    end
  end
  redis.call('DEL', to.lock)
  say(to.said_rw, '0')
  return there
end

local function end_write(to)
  local writer = to.owner .. ':write'
  local count = redis.call('HGET', to.lock, writer)
  if not count then return 0 end
  if tonumber(count) > 1 then
    redis.call('HINCRBY', to.lock, writer, -1)
    redis.call('PEXPIRE', to.lock, to.lease)
    return 1
  end
  redis.call('HDEL', to.lock, writer)
  if redis.call('HLEN', to.lock) == 1 then
    redis.call('DEL', to.lock)
  else
    redis.call('HSET', to.lock, 'mode', 'read')
  end
  say(to.said_rw, to.all)
  return 1
end
