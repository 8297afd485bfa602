-- KEYS: state hash, ready stream
-- ARGV: owner, lease ms, ready entry id, group
-- Returns the epoch, or 0 while another owner's lease is alive. A repeat by the same owner gives the same epoch.
local function lease(KEYS, ARGV)
  local have = redis.call('HMGET', KEYS[1], 'ep', 'own', 'until', 'rid')
  local alive = have[2] and have[2] ~= '' and tonumber(have[3] or 0) > now_ms()
  if alive and have[2] == ARGV[1] and have[4] == ARGV[3] then return tonumber(have[1]) end
  if alive then return 0 end
  local epoch = tonumber(have[1] or 0) + 1
  redis.call('HSET', KEYS[1], 'ep', epoch, 'own', ARGV[1], 'until', now_ms() + ARGV[2], 'rid', ARGV[3], 'rdy', '1')
  return epoch
end
