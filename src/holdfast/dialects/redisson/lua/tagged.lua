-- A reply as it must be on a shared connection: behind the tag of its request, the last argument.
local function tagged(reply)
  local tag = ARGV[#ARGV]
  if tag == '' then return reply end
  return {tag, reply}
end
