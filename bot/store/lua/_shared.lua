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
