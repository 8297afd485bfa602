-- KEYS: state hash, log stream, payload hash, index zset
-- ARGV: epoch, owner, expected seq, prev, new head, changed ms, thread, head, payload
-- One entry and nothing else: what a commit without inbox, outbox and timers costs. A repeat changes nothing.
local function append(KEYS, ARGV)
  if not holds(KEYS[1], ARGV[1], ARGV[2]) then return 'FENCED' end
  local have = redis.call('HMGET', KEYS[1], 'seq', 'head')
  if have[2] == ARGV[5] then return 'OK' end
  if tonumber(have[1] or 0) ~= tonumber(ARGV[3]) then return 'FORKED' end
  if have[2] and have[2] ~= ARGV[4] then return 'FORKED' end
  local seq = ARGV[3] + 1
  redis.call('XADD', KEYS[2], seq .. '-0', 'h', ARGV[8])
  redis.call('HSET', KEYS[3], seq, ARGV[9])
  redis.call('HSET', KEYS[1], 'seq', seq, 'head', ARGV[5])
  redis.call('ZADD', KEYS[4], ARGV[6], ARGV[7])
  return 'OK'
end
