-- The guard against a server that has lost what it had acknowledged: it was started without its
-- data or with old data, or it is a replica that missed the last writes. Each bucket has a record:
--   "<run id>"                       the server that gave the latest grants
--   "<run id> <until> <cause>"       a server on which nobody is let in before that time, so that
--                                    those who hold can say so first
-- KEYS  records; the first one stands for all where only a look is wanted
-- ARGV  window ms, 1 if strict, run id ('': not known), tag
-- ->    {run id, ms until somebody is let in (0: now), cause, record}; {run id} for a look
--       that found nothing new
local call = redis.call
local run, tag = ARGV[3], ARGV[4]

local function answer(reply)
  if tag == '' then return reply end
  return {tag, reply}
end

local function get(key)
  local record = redis.pcall('GET', key)
  if type(record) ~= 'table' then return record end
  if not string.find(record.err, 'WRONGTYPE', 1, true) then return error(record) end
  local text = ' is a ' .. call('TYPE', key).ok .. ', not a string'
  return error({err = 'WRONGTYPE the key ' .. key .. text})
end

local function looked()
  if run ~= '' and get(KEYS[1]) == run then return {run} end
  local clock = call('TIME')
  local now = clock[1] * 1000000 + clock[2]
  local said = call('INFO', 'server')
  local copied = call('INFO', 'replication')
  local id = string.match(said, 'run_id:(%x+)')
  -- The difference of two whole seconds: the first one may have been nearly over.
  local up = string.match(said, 'uptime_in_seconds:(%d+)')
  if not id or not up then return {'', 0, '', ''} end
  -- It became another one when it was promoted, and it may have been the primary before.
  local promoted = string.match(copied, 'second_repl_offset:(%d+)')
  if promoted then id = id .. '.' .. promoted end
  local window, strict = ARGV[1] * 1000, ARGV[2] == '1'
  up = math.max(0, (up - 1) * 1000000 + clock[2])
  -- In a cluster the record of another one has come with its slot, and so has all that it stands
  -- for. Unless this one was a replica, which may have missed something; or was started less than
  -- a usual lease ago: then the record may be its own from before, as loading may have taken it
  -- longer than the window.
  local comes = not promoted and up >= 30000000
    and string.find(call('INFO', 'cluster'), 'cluster_enabled:1')

  -- Has it counted anything that takes keys away, or has it followed another one?
  local function suspicious()
    local seen = call('INFO', 'commandstats')
    for _, name in ipairs({'flushdb', 'flushall', 'swapdb'}) do
      if string.find(seen, 'cmdstat_' .. name .. ':calls=[1-9]') then return true end
    end
    if string.find(call('INFO', 'stats'), 'evicted_keys:[1-9]') then return true end
    return promoted ~= nil
  end

  local worst, why, found = 0, '', id
  for _, key in ipairs(KEYS) do
    local record = get(key)
    local until_, cause
    local server = record and string.match(record, '^%S*')
    -- Without replicas it forgets after an hour that it was promoted.
    if server and not promoted then server = string.match(server, '^%x*') end
    if server == id then
      until_, cause = string.match(record, ' (%d+) (%a)$')
    elseif strict and not record and suspicious() then
      -- That may be later than its start, and so may a promotion be.
      until_, cause = now + window, 'lost'
    elseif up < window and not promoted then
      until_, cause = now + window - up, 'restarted'
    elseif record and comes then
      until_, cause = string.match(record, ' (%d+) (%a)$')
    elseif record or up < window then
      until_, cause = now + window, 'promoted'
    end
    until_ = (until_ or 0) + 0
    local written = id
    if until_ > now then
      written = id .. string.format(' %.0f ', until_) .. string.sub(cause, 1, 1)
      if until_ > worst then worst, why, found = until_, string.sub(cause, 1, 1), written end
    end
    if written ~= record then call('SET', key, written) end
  end
  return {id, worst > 0 and math.ceil((worst - now) / 1000) or 0, why, found}
end

local done, reply = pcall(looked)
if not done then return type(reply) == 'table' and reply or {err = reply} end
return answer(reply)
