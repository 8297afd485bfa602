-- KEYS: state hash, effect hash
-- ARGV: epoch, owner, then call id and token of this attempt for each call
-- Returns new, started, or the stored result after D: for each. The check right before an effect.
local function fx_begin(KEYS, ARGV)
  if not holds(KEYS[1], ARGV[1], ARGV[2]) then return 'FENCED' end
  local found = {}
  for i = 3, #ARGV, 2 do
    local token = 'S:' .. ARGV[i + 1]
    local have = redis.call('HGET', KEYS[2], ARGV[i])
    if not have then redis.call('HSET', KEYS[2], ARGV[i], token) end
    if not have or have == token then
      have = 'new'
    elseif string.sub(have, 1, 2) ~= 'D:' then
      have = 'started'
    end
    found[#found + 1] = have
  end
  return found
end
