-- KEYS: state hash, inbox stream, ready stream
-- ARGV: epoch, owner, ready entry id, group, thread, newest inbox id that was read, state
local function give_back(KEYS, ARGV)
  local have = redis.call('HMGET', KEYS[1], 'ep', 'own')
  if have[1] ~= ARGV[1] or (have[2] ~= ARGV[2] and have[2] ~= '') then return 'FENCED' end
  if have[2] == '' then return 'OK' end
  redis.call('XACK', KEYS[3], ARGV[4], ARGV[3])
  redis.call('XDEL', KEYS[3], ARGV[3])
  redis.call('HSET', KEYS[1], 'own', '', 'until', 0, 'rdy', '0', 'state', ARGV[7])
  local last = newest(KEYS[2])
  if last == '' then
    -- An empty stream would stay for ever. Its ids begin anew; nobody holds one across leases.
    redis.call('DEL', KEYS[2])
  elseif later_than(last, ARGV[6]) then
    make_ready(KEYS[1], KEYS[3], ARGV[5])
  end
  return 'OK'
end

local function release(KEYS, ARGV) return give_back(KEYS, ARGV) end
