#!lua flags=allow-oom
-- Restore a hold on a server that has forgotten it: only while recovery grants nothing, or in a
-- line that was never used there. The other holders must have renewed since, or the claim replaces
-- them.
-- KEYS  state, waiters, tombstones, recovery record
-- ARGV  claim id, ticket, ttl ms; weight, kind, capacity and words; grace period ms; run id, tag
-- ->    ticket: it is held; {0, reason}; {6}: call recovery.lua first
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local found = redis.pcall('HGET', KEYS[1], 's')

--@ line.lua

local id, ticket, ttl, window_us = ARGV[1], ARGV[2] + 0, ARGV[3] + 0, ARGV[5] * 1000
local weight, mine, wanted, words = string.match(ARGV[4], '^(%d+) (%a) (%d+) (.*)$')
weight, wanted = weight + 0, wanted + 0

-- Make room. First remove holders that were not renewed in this grace period, the longest without
-- renewal first. Then remove holders that entered before this claim: they must have been broken.
local function displace(since)
  flush()
  local all = alone and {alone, alonerow} or call('HGETALL', H)
  local rows, sum = {}, 0
  for i = 1, #all, 2 do
    if #all[i] == 32 then
      local theirs, expires, _, lease, heavy, leaving = struct.unpack(HELD, all[i + 1])
      local renewed = leaving == 1 and now or expires - lease * 1000
      local rank = renewed < since and renewed or theirs < ticket and since + theirs
      if rank then
        rows[#rows + 1] = {all[i], heavy, rank}
        sum = sum + heavy
      end
    end
  end
  if used - sum + weight > capacity then return false end
  table.sort(rows, function(a, b) return a[3] < b[3] end)
  for _, row in ipairs(rows) do
    if used + weight <= capacity then break end
    let_go({row[1]}, row[2])
  end
  return true
end

-- Whether the claim was granted by a server whose data this one lacks, in part or completely.
local function forgot()
  local said, copied = call('INFO', 'server'), call('INFO', 'replication')
  local up = string.match(said, 'uptime_in_seconds:(%d+)')
  if string.match(copied, 'second_repl_offset:(%d+)') then return true end
  return up and ticket < now - (up - 1) * 1000000
end

local function reclaim()
  if found and found.err then return error(found) end
  local record = call('GET', G)
  if run == '' then return {0, 'expired'} end
  local server, ends = string.match(record or '', '^(%S+) (%d+) ')
  if record ~= run and server ~= run then return {6} end
  ends = (ends or 0) + 0
  -- A line without a state was never used here, so nothing was granted in it.
  if ends <= now and (found or not forgot()) then return {0, 'expired'} end
  load(found)
  if not found and call('HLEN', H) > 0 then call('DEL', H) end
  if not found then tomb = NEVER end
  local reason = tombstone(id)
  if reason then return {0, reason} end
  if not found then tomb = 0 end
  settle()
  local row = holder(id)
  if row then
    local _, _, _, _, heavy, leaving = struct.unpack(HELD, row)
    if leaving == 1 then return {0, 'expired'} end
    let_go({id}, heavy)
  end
  local seat = waiter(id)
  if seat then rise(seat, id) end
  if holders + waiters == 0 then
    kind, capacity, former = mine, wanted, 0
  elseif kind ~= mine then
    return {0, 'expired'}
  end
  if used + weight > capacity and not displace(ends - window_us) then return {0, 'expired'} end
  given, lives = math.max(given, ticket), ttl + LIFE
  local expires = now + ttl * 1000
  hold(id, struct.pack(HELD, ticket, expires, ticket, ttl, weight, 0) .. words, expires, weight)
  return ticket
end

return answer(reclaim)
