-- KEYS: state hash, payload hash
-- ARGV: epoch, owner, then seq of a block and what is left of its payloads (empty: nothing), and so on
local function erase(KEYS, ARGV)
  if not holds(KEYS[1], ARGV[1], ARGV[2]) then return 'FENCED' end
  for i = 3, #ARGV, 2 do
    if ARGV[i + 1] == '' then
      redis.call('HDEL', KEYS[2], ARGV[i])
    else
      redis.call('HSET', KEYS[2], ARGV[i], ARGV[i + 1])
    end
  end
  return 'OK'
end
