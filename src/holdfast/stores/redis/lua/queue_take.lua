#!lua flags=allow-oom
-- Take jobs that are due.
-- KEYS  see queue.lua
-- ARGV  take, limit, ttl, interval, by take, attempts, blocks, owner, microseconds between two
--       starts by the rate (0: no rate), burst of the rate, ticket and address of a waiter (''),
--       members of the waiters that wait no longer, run id, tag
-- ->    {1, the first fence, now, and per job its field, row, attempt and the distance of its fence
--       from the first one}; {2, ms until the next request can have an effect}; {6}: see join.lua
local string, struct, call = string, struct, redis.call
local state = ARGV[2] == '1' and ARGV[9] == '0' and call('HGET', KEYS[1], '\255')
-- Fast path, with the same result as below: one job, from the groups or the ungrouped jobs,
-- whichever have the turn, and no rare case.
if state and string.byte(state) ~= 64 then
  local last, first, next_, below, turn, start, accepted, done, hour, floor, tomb, soonest, waits,
    jobs, extra, others, failures = struct.unpack('>ddddddddddddddBBB', state)
  local clock = call('TIME')
  local now = clock[1] * 1000000 + clock[2]
  -- The latest time seen here. The code below handles a clock that was set back.
  local seen = #state > 115 and struct.unpack('>d', state, 116) or 0
  local take, run = ARGV[1], ARGV[13]
  if jobs > 0 and seen <= now + 1000000 and now < soonest and tomb <= now and failures == 0 and (others == 0 or turn == 0)
    and (run == '' or call('GET', KEYS[15]) == run) and not call('HGET', KEYS[6], take) then
    local G, field, name, row, group = KEYS[1], nil, nil, nil, nil
    if turn == 0 or first == next_ then
      name = call('ZRANGEBYSCORE', KEYS[3], '-inf', now, 'LIMIT', 0, 1)[1]
    elseif first < next_ then
      -- The groups may have no job; then the next take gets an ungrouped one, too.
      field = first .. ':'
      row = call('HGET', KEYS[2], field)
    end
    if name then
      group = call('HGET', G, name)
      field = string.format('%.0f:', (struct.unpack('>d', group))) .. name
      row = call('HGET', KEYS[2], field)
    elseif not field and others == 0 and first < next_ then
      field = first .. ':'
      row = call('HGET', KEYS[2], field)
    end
    if row then
      if name then
        call('ZREM', KEYS[3], name)
        if ARGV[5] == '1' then
          local head, after = struct.unpack('>dd', group)
          call('HSET', G, name, struct.pack('>ddd', head, after, now + ARGV[4]))
        end
        turn = 1
      else
        first, turn = first + 1, 0
      end
      local ends = now + ARGV[3]
      last = math.max(last + 1, now)
      call('ZADD', KEYS[5], ends, take .. field)
      call('HSET', KEYS[6], take, struct.pack('>dI2dBdBBI2', last, 1, ARGV[4], ARGV[5], ARGV[6],
        ARGV[7], string.sub(row, 17, 20) == '\0\0\0\0' and 0 or 1, #ARGV[8]) .. ARGV[8]
        .. struct.pack('>I2', #field) .. field)
      call('HSET', G, '\255', struct.pack('>ddddddddddddddBBBd', last, first, next_, below, turn,
        start, accepted, done, hour, floor, tomb, math.min(soonest, ends), waits, jobs, extra,
        others, failures, math.max(seen, now)))
      for member in string.gmatch(ARGV[12], '[^\n]+') do call('ZREM', KEYS[11], member) end
      local reply = {1, last, now, field, row, 1, 0}
      if ARGV[14] == '' then return reply end
      return {ARGV[14], reply}
    end
  end
end

--@ queue.lua
keep_time()
reap()
--@ queue_taken.lua
return answer(taken())
