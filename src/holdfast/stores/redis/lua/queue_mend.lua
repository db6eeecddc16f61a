#!lua flags=allow-oom
-- Remove jobs by hand, or retry dead letters.
-- KEYS  see queue.lua
-- ARGV  'purge' or 'revive', the state that they must have ('': any but taken), 1 if the queue has
--       several shards, fields, run id, tag
-- ->    the number of jobs; with several shards: 0, that number, the number of waiters to wake
--@ queue.lua
keep_time()

local acts, count = {}, 0

function acts.purge(field, row)
  local number, name = split(field)
  local head, after, rests = nil, nil, nil
  if name ~= '' then head, after, rests = group_of(name) end
  local how, dead = 'waiting', call('ZSCORE', Z, field)
  if dead then
    how = 'dead'
  elseif head then
    local _, before = times(row)
    local moment = number > head and before or call('ZSCORE', D, name)
    if not moment then return end
    if moment + 0 > now then how = 'delayed' end
  elseif number < first then
    local moment = call('ZSCORE', P, field)
    if not moment then return end
    if moment + 0 > now then how = 'delayed' end
  end
  if ARGV[2] ~= '' and ARGV[2] ~= how then return end
  call('HDEL', J, field)
  call('HDEL', I, field)
  call('ZREM', Z, field)
  call('ZREM', P, field)
  forget(row)
  count, jobs = count + 1, jobs - 1
  if head and number == head then
    call('ZREM', D, name)
    advance(name, number + 1, after, rests)
  end
end

function acts.revive(field, row)
  if call('ZREM', Z, field) == 0 then return end
  count = count + 1
  local number, name = split(field)
  local head, after, rests
  if name ~= '' then
    head, after, rests = group_of(name)
    if not head then head, after, rests = floor, floor, 0 end
  end
  local to = field
  if head and head ~= number then to = string.format('%.0f:', after) .. name end
  -- Its attempts start from 0 again; the reason of its failure stays readable.
  local record = call('HGET', I, field)
  if record then
    call('HDEL', I, field)
    call('HSET', I, to, struct.pack(FAILED, 0, now) .. string.sub(record, 17))
  end
  if name == '' then
    call('ZADD', P, now, field)
    others = 1
    return rouse(now)
  end
  if head == number then return line_up(name, math.max(rests, now)) end
  -- It gets the place of a job that is put now.
  local at = times(row)
  call('HDEL', J, field)
  call('HSET', J, to, struct.pack('>dd', at, now - at) .. string.sub(row, 17))
  call('HSET', G, name, struct.pack(GROUP, head, after + 1, rests))
  if head == after then
    call('ZREM', R, name)
    line_up(name, math.max(rests, now))
  end
end

reap()
for i = 4, #ARGV - 2 do
  local row = call('HGET', J, ARGV[i])
  if row then acts[ARGV[1]](ARGV[i], row) end
  flush()
end
local reply = count
if ARGV[3] == '1' then reply = {0, count, due} end
return answer(reply)
