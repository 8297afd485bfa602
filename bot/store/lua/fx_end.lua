-- KEYS: state hash, effect hash
-- ARGV: epoch, owner, call id, result
-- A stale worker's result is kept for the next one, and the worker is told that it is stale.
local function fx_end(KEYS, ARGV)
  local have = redis.call('HGET', KEYS[2], ARGV[3])
  if have and string.sub(have, 1, 2) == 'S:' then redis.call('HSET', KEYS[2], ARGV[3], 'D:' .. ARGV[4]) end
  if not holds(KEYS[1], ARGV[1], ARGV[2]) then return 'FENCED' end
  return 'OK'
end
