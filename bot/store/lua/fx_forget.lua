-- KEYS: state hash, effect hash
-- ARGV: epoch, owner, then call ids whose results are in the log
local function fx_forget(KEYS, ARGV)
  if not holds(KEYS[1], ARGV[1], ARGV[2]) then return 'FENCED' end
  for i = 3, #ARGV do redis.call('HDEL', KEYS[2], ARGV[i]) end
  return 'OK'
end
