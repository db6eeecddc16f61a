-- Settle the deliveries that these arguments name, two for each as in queue_settle.lua. Returns 1
-- or 0 for each.
local function settled(from, upto)
  local members, answers, takes, seen = {}, {}, {}, {}
  for i = from, upto, 2 do members[#members + 1] = ARGV[i] end
  for start = 1, #members, 500 do
    local most = math.min(#members, start + 499)
    local scores = call('ZMSCORE', E, unpack(members, start, most))
    for i = start, most do
      local member, ends = members[i], scores[i - start + 1]
      local ours = ends and ends + 0 > now and not seen[member]
      answers[i] = ours and 1 or 0
      if ours then
        seen[member] = true
        local take, what = string.sub(member, 1, 32), ARGV[from + i * 2 - 1]
        local known = takes[take] or known_take(take) or LOST
        takes[take] = known
        if what == 'a' and known[7] == 0 and failures == 0 and string.byte(member, -1) == 58 then
          done, jobs = done + 1, jobs - 1
          rows[#rows + 1], loans[#loans + 1] = string.sub(member, 33), member
          local one = ended[take]
          if one then one[2] = one[2] + 1 else ended[take] = {known[2], 1} end
        elseif what == 'a' then
          finish(take, known, string.sub(member, 33), 'a', now)
        else
          local verdict, delay, grave, reason = string.match(what, '^(%a)(%d+) (%d+) (.*)$')
          if grave ~= '0' then bury(take, grave) end
          finish(take, known, string.sub(member, 33), verdict, now, delay + 0, reason)
        end
      end
    end
  end
  return answers
end

