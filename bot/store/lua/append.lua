-- KEYS: state hash, log stream, payload hash, inbox stream, index zset
-- ARGV: "epoch owner expected-seq new-seq changed-ms", heads, payloads
-- Entries and nothing else: what a commit without inbox, outbox and timers costs. A repeat changes nothing.
-- Returns the id of the newest inbox item, or an empty text.
-- The small values travel as one: each argument of a call costs the client more than splitting it costs here.
local function append(KEYS, ARGV)
  local epoch, owner, seq, last, ms = string.match(ARGV[1], '^(%d+) (%S+) (%d+) (%d+) (%d+)$')
  local have = redis.call('HMGET', KEYS[1], 'ep', 'own', 'seq', 'head')
  if have[1] ~= epoch or have[2] ~= owner then return 'FENCED' end
  local follows = place_of(have[3], have[4], seq, ARGV[2])
  if follows == 'FORKED' then return 'FORKED' end
  if follows == 'NEXT' then
    keep(KEYS[1], KEYS[2], KEYS[3], KEYS[5], last, ms, ARGV[2], ARGV[3])
  end
  return newest(KEYS[4])
end
