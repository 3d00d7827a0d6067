-- Deletes some of what is past its time, of one kind. The answer is how many went and, for claims, how many had to stay:
-- a key whose item still waits stays claimed, else the item could be pushed a second time.
local kind, limit, skip, life = take(), take(), take(), tonumber(take())
local went, stayed = 0, 0
if kind == 'claims' then
  for _, key in ipairs(redis.call('ZRANGEBYSCORE', claims, '-inf', num(now - life), 'LIMIT', skip, limit)) do
    if redis.call('HEXISTS', bodies, key) == 1 then
      stayed = stayed + 1
    else
      redis.call('ZREM', claims, key)
      went = went + 1
    end
  end
else
  local ends, values = contentends, contents
  if kind == 'counters' then
    ends, values = counterends, counters
  end
  for _, key in ipairs(redis.call('ZRANGEBYSCORE', ends, '-inf', num(now), 'LIMIT', 0, limit)) do
    redis.call('ZREM', ends, key)
    redis.call('HDEL', values, key)
    if kind == 'contents' then
      redis.call('ZREM', contentkeys, key)
    end
    went = went + 1
  end
end
if went == 0 then
  return {0, stayed}
end
return answer({went, stayed})
