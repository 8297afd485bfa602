-- KEYS: state hash, outbox hash, inbox stream, ready stream
-- ARGV: epoch, owner, row, thread, body of the posted item (empty: none)
local function out_done(KEYS, ARGV)
  if not holds(KEYS[1], ARGV[1], ARGV[2]) then return 'FENCED' end
  if redis.call('HDEL', KEYS[2], ARGV[3]) == 1 and ARGV[5] ~= '' then
    redis.call('XADD', KEYS[3], '*', 'k', 'posted', 'b', ARGV[5])
    make_ready(KEYS[1], KEYS[4], ARGV[4])
  end
  redis.call('HDEL', KEYS[2], ARGV[3] .. ':a')
  return 'OK'
end
