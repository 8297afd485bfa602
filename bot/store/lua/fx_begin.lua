-- KEYS: state hash, effect hash
-- ARGV: epoch, owner, call id, token of this attempt
-- Returns new, started, or the stored result after D:. The check right before an effect.
local function fx_begin(KEYS, ARGV)
  if not holds(KEYS[1], ARGV[1], ARGV[2]) then return 'FENCED' end
  local have = redis.call('HGET', KEYS[2], ARGV[3])
  if not have then
    redis.call('HSET', KEYS[2], ARGV[3], 'S:' .. ARGV[4])
    return 'new'
  end
  if have == 'S:' .. ARGV[4] then return 'new' end
  if string.sub(have, 1, 2) == 'D:' then return have end
  return 'started'
end
