-- A state that begins with '@', its layout and a blank is of a later release. (It never has 8 bytes.)
local function layout(raw)
  local found = string.match(raw, '^@(%d+) ')
  if found then error('it has layout ' .. found) end
end
