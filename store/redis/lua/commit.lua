-- Writes a batch: first all that can be refused, then all that cannot be. The acks lead the writes: they need no memory,
-- and once a script has written, the server does not refuse the rest for want of memory.
local leased, thread, epoch, line, release = take() == '1', take(), take(), KEYS[tonumber(take())], take() == '1'
if leased and not live(thread, epoch) then
  return stale()
end

local acks, acked = {}, {}
for i = 1, tonumber(take()) do
  local key = take()
  if acked[key] or not redis.call('ZSCORE', line, key) then
    return {'ack', key}
  end
  acks[i], acked[key] = key, true
end

local puts, versions = {}, {}
for i = 1, tonumber(take()) do
  local key, version, after, value = take(), take(), take(), take()
  local current = versions[key]
  if not current then
    local held = redis.call('HGET', records, key)
    current = held and string.match(held, '^%d+') or '0'
  end
  if current ~= version then
    return {'conflict', key, version}
  end
  versions[key] = value == '' and '0' or after
  puts[i] = {key, after, value}
end

local adds, sums = {}, {}
for i = 1, tonumber(take()) do
  local key, delta, ends = take(), take(), take()
  if not sums[key] then
    sums[key] = math.abs(tonumber(redis.call('HGET', counters, key) or '0'))
  end
  sums[key] = sums[key] + math.abs(tonumber(delta))
  if sums[key] > 9.2e18 then
    return {'overflow', key}
  end
  adds[i] = {key, delta, ends}
end

for _, key in ipairs(acks) do
  redis.call('ZREM', line, key)
  redis.call('HDEL', bodies, key)
end
if #acks > 0 then
  settle(thread, line)
end

for _, put in ipairs(puts) do
  local key, after, value = unpack(put)
  if value == '' then
    redis.call('HDEL', records, key)
    redis.call('ZREM', recordkeys, key)
  else
    redis.call('HSET', records, key, after .. ':' .. value)
    redis.call('ZADD', recordkeys, 0, key)
  end
end

for _, add in ipairs(adds) do
  local key, delta, ends = unpack(add)
  local ended = redis.call('ZSCORE', counterends, key)
  if ended and tonumber(ended) <= now then
    redis.call('HDEL', counters, key)
  end
  redis.call('HINCRBY', counters, key, delta)
  if ends == '0' then
    redis.call('ZREM', counterends, key)
  else
    redis.call('ZADD', counterends, ends, key)
  end
end

for _ = 1, tonumber(take()) do
  local stream, list, kind, when, rest = take(), KEYS[tonumber(take())], KEYS[tonumber(take())], take(), take()
  if when == '0' then
    when = num(now) .. '000'
  end
  if redis.call('RPUSH', list, when .. ':' .. rest) == 1 then
    redis.call('LPUSH', kind, stream)
  end
end

for _ = 1, tonumber(take()) do
  local key, exact, ends, value = take(), take(), take(), take()
  redis.call('HSET', contents, key, exact .. ':' .. value)
  redis.call('ZADD', contentkeys, 0, key)
  if ends == '0' then
    redis.call('ZREM', contentends, key)
  else
    redis.call('ZADD', contentends, ends, key)
  end
end

local fresh = 0
for _ = 1, tonumber(take()) do
  local key, to, queue, body = take(), take(), KEYS[tonumber(take())], take()
  if redis.call('ZADD', claims, 'NX', num(now), key) == 1 then
    redis.call('ZADD', queue, redis.call('HINCRBY', meta, 'item', 1), key)
    redis.call('HSET', bodies, key, body)
    settle(to, queue)
    if not redis.call('ZSCORE', leases, to) then
      enqueue(to)
    end
    fresh = fresh + 1
  end
end

if release then
  free(thread)
end
return answer({'ok', fresh})
