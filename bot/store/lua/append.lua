-- KEYS: state hash, log stream, payload hash, index zset
-- ARGV: "epoch owner expected-seq prev new-head changed-ms", head, payload
-- One entry and nothing else: what a commit without inbox, outbox and timers costs. A repeat changes nothing.
-- The small values travel as one: each argument of a call costs the client more than splitting it costs here.
local function append(KEYS, ARGV)
  local epoch, owner, seq, prev, head, ms = string.match(ARGV[1], '^(%d+) (%S+) (%d+) (%S+) (%S+) (%d+)$')
  local have = redis.call('HMGET', KEYS[1], 'ep', 'own', 'seq', 'head')
  if have[1] ~= epoch or have[2] ~= owner then return 'FENCED' end
  if have[4] == head then return 'OK' end
  if (have[3] or '0') ~= seq then return 'FORKED' end
  if have[4] and have[4] ~= prev then return 'FORKED' end
  seq = seq + 1
  redis.call('XADD', KEYS[2], seq .. '-0', 'h', ARGV[2])
  redis.call('HSET', KEYS[3], seq, ARGV[3])
  redis.call('HSET', KEYS[1], 'seq', seq, 'head', head)
  redis.call('ZADD', KEYS[4], ms, string.match(KEYS[1], ':st:(.*)$'))
  return 'OK'
end
