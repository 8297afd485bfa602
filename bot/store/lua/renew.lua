-- KEYS: state hash, inbox stream, ready stream
-- ARGV: epoch, owner, lease ms, group, ready entry id
-- Returns the id of the newest inbox item, or an empty text. The ready entry counts as attended to.
local function renew(KEYS, ARGV)
  if not holds(KEYS[1], ARGV[1], ARGV[2]) then return 'FENCED' end
  redis.call('HSET', KEYS[1], 'until', now_ms() + ARGV[3])
  redis.call('XCLAIM', KEYS[3], ARGV[4], ARGV[2], 0, ARGV[5], 'JUSTID')
  return newest(KEYS[2])
end
