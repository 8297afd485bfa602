-- KEYS: state hash, log stream, payload hash, inbox stream, outbox hash, timer zset, timer body hash, index zset,
--       effect hash, then one pin string for each pin
-- ARGV: epoch, owner, commit id, thread, expected seq, new seq, changed ms, heads (empty: no entries), payloads,
--       counts of consumed, effects, timers, pins, settled; then the items one after the other:
--       consumed = id; effect = json; timer = name, due ms (-1 cancels), body; pin = content; settled = call id
-- Returns the id of the newest inbox item, or an empty text.
local function apply(KEYS, ARGV)
  local at, counts = 15, {}
  for i = 10, 14 do counts[i - 9] = tonumber(ARGV[i]) end
  if ARGV[8] ~= '' then keep(KEYS[1], KEYS[2], KEYS[3], KEYS[8], ARGV[6], ARGV[7], ARGV[8], ARGV[9]) end
  for _ = 1, counts[1] do redis.call('XDEL', KEYS[4], ARGV[at]); at = at + 1 end
  for _ = 1, counts[2] do
    local row = redis.call('HINCRBY', KEYS[1], 'outseq', 1)
    redis.call('HSET', KEYS[5], row, ARGV[at])
    at = at + 1
  end
  for _ = 1, counts[3] do
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
  for i = 1, counts[4] do redis.call('SET', KEYS[9 + i], ARGV[at], 'NX'); at = at + 1 end
  for _ = 1, counts[5] do redis.call('HDEL', KEYS[9], ARGV[at]); at = at + 1 end
  redis.call('HSET', KEYS[1], 'cid', ARGV[3])
end

local function commit(KEYS, ARGV)
  if not holds(KEYS[1], ARGV[1], ARGV[2]) then return 'FENCED' end
  local have = redis.call('HMGET', KEYS[1], 'seq', 'head', 'cid')
  -- The same commit id: the reply of this very commit was lost and the client sent it again.
  if have[3] ~= ARGV[3] then
    local follows = ARGV[8] == '' and 'NEXT' or place_of(have[1], have[2], ARGV[5], ARGV[8])
    if follows == 'FORKED' then return 'FORKED' end
    if follows == 'NEXT' then apply(KEYS, ARGV) end
  end
  return newest(KEYS[4])
end
