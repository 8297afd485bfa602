-- KEYS: timer zset, timer body hash, state hash, inbox stream, ready stream
-- ARGV: member (thread and name), thread
-- One due timer becomes one inbox item; 0 when somebody else fired it or it was moved.
local function fire_timers(KEYS, ARGV)
  local due = redis.call('ZSCORE', KEYS[1], ARGV[1])
  if not due or tonumber(due) > now_ms() then return 0 end
  local body = redis.call('HGET', KEYS[2], ARGV[1]) or '{}'
  redis.call('ZREM', KEYS[1], ARGV[1])
  redis.call('HDEL', KEYS[2], ARGV[1])
  redis.call('XADD', KEYS[4], '*', 'k', 'timer', 'b', body)
  make_ready(KEYS[3], KEYS[5], ARGV[2])
  return 1
end
