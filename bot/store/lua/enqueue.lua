-- KEYS: state hash, inbox stream, ready stream, claim string
-- ARGV: claim ms, only known (1/0), thread, kind, body
local function enqueue(KEYS, ARGV)
  if ARGV[2] == '1' and redis.call('EXISTS', KEYS[1]) == 0 then return 'unknown_thread' end
  if not redis.call('SET', KEYS[4], '1', 'NX', 'PX', ARGV[1]) then return 'duplicate' end
  redis.call('XADD', KEYS[2], '*', 'k', ARGV[4], 'b', ARGV[5])
  make_ready(KEYS[1], KEYS[3], ARGV[3])
  return 'accepted'
end
