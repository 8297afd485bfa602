-- KEYS: state hash, inbox stream
-- ARGV: epoch, owner, lease ms
-- Returns how many inbox items wait.
local function renew(KEYS, ARGV)
  if not holds(KEYS[1], ARGV[1], ARGV[2]) then return 'FENCED' end
  redis.call('HSET', KEYS[1], 'until', now_ms() + ARGV[3])
  return redis.call('XLEN', KEYS[2])
end
