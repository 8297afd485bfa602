-- Shared by all Functions of this library. Every write is fenced by epoch and owner.
local function now_ms()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

local function holds(st, epoch, owner)
  local have = redis.call('HMGET', st, 'ep', 'own')
  return have[1] == epoch and have[2] == owner
end

-- One entry of the ready stream for each thread with work, never one for each message.
local function make_ready(st, ready, thread)
  if redis.call('HGET', st, 'rdy') ~= '1' then
    redis.call('XADD', ready, '*', 't', thread)
    redis.call('HSET', st, 'rdy', '1')
  end
end

local function later_than(id, other)
  local a, b = string.match(id, '(%d+)%-(%d+)')
  local c, d = string.match(other, '(%d+)%-(%d+)')
  a, b, c, d = tonumber(a), tonumber(b), tonumber(c), tonumber(d)
  return a > c or (a == c and b > d)
end

local function newest(inbox)
  local last = redis.call('XREVRANGE', inbox, '+', '-', 'COUNT', 1)[1]
  return last and last[1] or ''
end

-- A block of entries begins with a mark and the hash that it follows, and ends with its own. Where it belongs:
-- STORED already (a repeat), NEXT, or FORKED. The first version kept the head in hex.
local function place_of(seq, head, expected, block)
  local prev, own = string.sub(block, 2, 33), string.sub(block, -32)
  if head and #head == 64 then
    head = string.gsub(head, '..', function(pair) return string.char(tonumber(pair, 16)) end)
  end
  if head == own then return 'STORED' end
  if (seq or '0') ~= expected then return 'FORKED' end
  if head and head ~= prev then return 'FORKED' end
  return 'NEXT'
end

local function keep(st, log, payloads, index, last, ms, heads, block)
  redis.call('XADD', log, last .. '-0', 'h', heads)
  redis.call('HSET', payloads, last, block)
  redis.call('HSET', st, 'seq', last, 'head', string.sub(heads, -32))
  redis.call('ZADD', index, ms, string.match(st, ':st:(.*)$'))
end
