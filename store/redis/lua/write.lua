-- Begins every script that writes. KEYS[1] is the mark of this call: once the script has run, it holds the answer, so that
-- a caller whose reply was lost may send the same call again. ARGV[1] is empty (tests put a standing clock there), ARGV[2]
-- the life of the mark in milliseconds. The marks are the only keys with a time to live: nothing else may vanish alone.
local mark, meta, ready, leases, epochs, backlog, bodies, claims = unpack(KEYS, 1, 8)
local records, recordkeys, contents, contentkeys, contentends, counters, counterends = unpack(KEYS, 9, 15)

local done = redis.call('GET', mark)
if done then
  return cmsgpack.unpack(done)
end

local at = 2
local function take()
  at = at + 1
  return ARGV[at]
end

-- Microseconds by the server's clock. They stay exact in a double until the year 2255.
local now = tonumber(ARGV[1])
if not now then
  local t = redis.call('TIME')
  now = t[1] * 1000000 + t[2]
end

local function num(n)
  return string.format('%.0f', n)
end

local function answer(reply)
  redis.call('SET', mark, cmsgpack.pack(reply), 'PX', ARGV[2])
  return reply
end

-- A refusal is counted if there is memory for it; it is a refusal in any case.
local function stale()
  redis.pcall('HINCRBY', meta, 'stale', 1)
  redis.pcall('SET', mark, cmsgpack.pack({'stale'}), 'PX', ARGV[2])
  return {'stale'}
end

local function live(thread, epoch)
  if redis.call('HGET', epochs, thread) ~= epoch then
    return false
  end
  local till = redis.call('ZSCORE', leases, thread)
  return till and tonumber(till) > now
end

-- Puts a thread at the end of the line. Scores are times, one apart at least, so that the line keeps its order within a
-- microsecond and when the clock is set back.
local function enqueue(thread)
  if redis.call('ZSCORE', ready, thread) then
    return
  end
  local score = math.max(now, tonumber(redis.call('HGET', meta, 'ready') or '0') + 1)
  redis.call('HSET', meta, 'ready', num(score))
  redis.call('ZADD', ready, num(score), thread)
  redis.call('PUBLISH', meta, '')
end

-- Ends the lease of a thread and puts the thread where it belongs. score, if there is one, is its old place in the line.
local function free(thread, score)
  redis.call('ZREM', leases, thread)
  if not redis.call('ZSCORE', backlog, thread) then
    redis.call('HDEL', epochs, thread)
  elseif score then
    redis.call('ZADD', ready, score, thread)
    redis.call('PUBLISH', meta, '')
  else
    enqueue(thread)
  end
end

-- The backlog has the threads with items, by their oldest item.
local function settle(thread, line)
  local oldest = redis.call('ZRANGE', line, 0, 0, 'WITHSCORES')
  if oldest[1] then
    redis.call('ZADD', backlog, oldest[2], thread)
  else
    redis.call('ZREM', backlog, thread)
  end
end

