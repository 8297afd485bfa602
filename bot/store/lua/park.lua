-- As release; the thread waits for a person. Needs release.lua.
local function park(KEYS, ARGV) return give_back(KEYS, ARGV) end
