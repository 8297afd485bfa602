-- KEYS: state hash, inbox stream, ready stream, claims zset, claim string of the version before this one
-- ARGV: claim, claim ms, only known (1/0), thread, kind, body
local function enqueue(KEYS, ARGV)
  if ARGV[3] == '1' and redis.call('EXISTS', KEYS[1]) == 0 then return 'unknown_thread' end
  local now = now_ms()
  redis.call('ZREMRANGEBYSCORE', KEYS[4], '-inf', now)
  if redis.call('ZSCORE', KEYS[4], ARGV[1]) or redis.call('EXISTS', KEYS[5]) == 1 then return 'duplicate' end
  redis.call('ZADD', KEYS[4], now + ARGV[2], ARGV[1])
  redis.call('XADD', KEYS[2], '*', 'k', ARGV[5], 'b', ARGV[6])
  make_ready(KEYS[1], KEYS[3], ARGV[4])
  return 'accepted'
end
