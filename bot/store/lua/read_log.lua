-- KEYS: log stream, payload hash
-- ARGV: first seq that is wanted
-- Returns id, heads, payloads (nothing where all are erased) of each block, one after the other. Never writes.
local function read_log(KEYS, ARGV)
  local rows = redis.call('XRANGE', KEYS[1], ARGV[1] .. '-0', '+')
  local found, place = {}, 0
  for from = 1, #rows, 1000 do
    local names = {}
    for i = from, math.min(from + 999, #rows) do
      names[#names + 1] = string.sub(rows[i][1], 1, -3)
    end
    local payloads = redis.call('HMGET', KEYS[2], unpack(names))
    for i = 1, #names do
      found[place + 1], found[place + 2], found[place + 3] = names[i], rows[from + i - 1][2][2], payloads[i]
      place = place + 3
    end
  end
  return found
end
