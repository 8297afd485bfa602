-- KEYS: state hash, log stream, payload hash, inbox stream, index zset; then only what is needed, for names are most of
--       what a commit sends beside its entries: outbox hash (effects), timer zset and timer body hash (timers),
--       effect hash (settled), one pin string for each pin
-- ARGV: epoch, owner, commit id, thread, expected seq, new seq, changed ms, heads (empty: no entries), payloads,
--       counts of consumed, effects, timers, settled, pins; then the items one after the other:
--       consumed = id; effect = json; timer = name, due ms (-1 cancels), body; settled = call id; pin = content
-- Returns the id of the newest inbox item, or an empty text.
local function set_timer(timers, bodies, member, due, body)
  if due == '-1' then
    redis.call('ZREM', timers, member)
    redis.call('HDEL', bodies, member)
  else
    redis.call('ZADD', timers, due, member)
    redis.call('HSET', bodies, member, body)
  end
end

local function apply(KEYS, ARGV)
  local key, at, counts = 5, 14, {}
  local function next_key() key = key + 1; return KEYS[key] end
  local function next_item() at = at + 1; return ARGV[at] end
  for i = 10, 14 do counts[i - 9] = tonumber(ARGV[i]) end
  if ARGV[8] ~= '' then keep(KEYS[1], KEYS[2], KEYS[3], KEYS[5], ARGV[6], ARGV[7], ARGV[8], ARGV[9]) end
  for _ = 1, counts[1] do redis.call('XDEL', KEYS[4], next_item()) end
  if counts[2] > 0 then
    local outbox = next_key()
    for _ = 1, counts[2] do
      redis.call('HSET', outbox, redis.call('HINCRBY', KEYS[1], 'outseq', 1), next_item())
    end
  end
  if counts[3] > 0 then
    local timers, bodies = next_key(), next_key()
    for _ = 1, counts[3] do
      local member = ARGV[4] .. '\31' .. next_item()
      local due, body = next_item(), next_item()
      set_timer(timers, bodies, member, due, body)
    end
  end
  if counts[4] > 0 then
    local effects = next_key()
    for _ = 1, counts[4] do redis.call('HDEL', effects, next_item()) end
  end
  for _ = 1, counts[5] do redis.call('SET', next_key(), next_item(), 'NX') end
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
