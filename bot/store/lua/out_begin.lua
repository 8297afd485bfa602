-- KEYS: state hash, outbox hash
-- ARGV: epoch, owner, row
-- Returns the attempts before this one.
local function out_begin(KEYS, ARGV)
  if not holds(KEYS[1], ARGV[1], ARGV[2]) then return 'FENCED' end
  if redis.call('HEXISTS', KEYS[2], ARGV[3]) == 0 then return 0 end
  return redis.call('HINCRBY', KEYS[2], ARGV[3] .. ':a', 1) - 1
end
