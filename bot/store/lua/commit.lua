-- KEYS: state hash, log stream, payload hash, inbox stream, outbox hash, timer zset, timer body hash, index zset,
--       then one pin string for each pin
-- ARGV: epoch, owner, commit id, thread, expected seq, prev, new head, changed ms,
--       counts of entries, consumed, effects, timers, pins; then the items one after the other:
--       entry = seq, head, payload; consumed = id; effect = json; timer = name, due ms (-1 cancels), body; pin = content
local function apply(KEYS, ARGV, seq)
  local at, counts = 14, {}
  for i = 9, 13 do counts[i - 8] = tonumber(ARGV[i]) end
  for _ = 1, counts[1] do
    redis.call('XADD', KEYS[2], ARGV[at] .. '-0', 'h', ARGV[at + 1])
    redis.call('HSET', KEYS[3], ARGV[at], ARGV[at + 2])
    at = at + 3
  end
  for _ = 1, counts[2] do redis.call('XDEL', KEYS[4], ARGV[at]); at = at + 1 end
  for _ = 1, counts[3] do
    local row = redis.call('HINCRBY', KEYS[1], 'outseq', 1)
    redis.call('HSET', KEYS[5], row, ARGV[at])
    at = at + 1
  end
  for _ = 1, counts[4] do
    local member = ARGV[4] .. '\31' .. ARGV[at]
    if ARGV[at + 1] == '-1' then
      redis.call('ZREM', KEYS[6], member)
      redis.call('HDEL', KEYS[7], member)
    else
      redis.call('ZADD', KEYS[6], ARGV[at + 1], member)
      redis.call('HSET', KEYS[7], member, ARGV[at + 2])
    end
    at = at + 3
  end
  for i = 1, counts[5] do redis.call('SET', KEYS[8 + i], ARGV[at], 'NX'); at = at + 1 end
  if counts[1] > 0 then
    redis.call('HSET', KEYS[1], 'seq', seq + counts[1], 'head', ARGV[7])
    redis.call('ZADD', KEYS[8], ARGV[8], ARGV[4])
  end
  redis.call('HSET', KEYS[1], 'cid', ARGV[3])
end

local function commit(KEYS, ARGV)
  if not holds(KEYS[1], ARGV[1], ARGV[2]) then return 'FENCED' end
  local have = redis.call('HMGET', KEYS[1], 'seq', 'head', 'cid')
  -- The reply of this very commit was lost and the client sent it again.
  if have[3] == ARGV[3] then return 'OK' end
  if tonumber(ARGV[9]) > 0 and have[2] == ARGV[7] then return 'OK' end
  local seq = tonumber(have[1] or 0)
  if tonumber(ARGV[9]) > 0 then
    if seq ~= tonumber(ARGV[5]) then return 'FORKED' end
    if have[2] and have[2] ~= ARGV[6] then return 'FORKED' end
  end
  apply(KEYS, ARGV, seq)
  return 'OK'
end
