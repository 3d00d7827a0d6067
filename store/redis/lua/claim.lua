-- Ends the leases whose time is up and leases ready threads, the longest waiting first: one for each length that is given.
-- The answer is how long the earliest lease still runs (-1: there is none), then thread, epoch and former place for each.
-- Nothing is written when nothing has changed, so a poll costs no disk.
local reply, wrote = {''}, false
for _, thread in ipairs(redis.call('ZRANGEBYSCORE', leases, '-inf', num(now), 'LIMIT', 0, 100)) do
  free(thread, redis.call('ZSCORE', leases, thread))
  wrote = true
end
for _ = 1, tonumber(take()) do
  local first = redis.call('ZPOPMIN', ready) -- the first write, for it needs no memory
  if not first[1] then
    break
  end
  local thread, epoch = first[1], redis.call('HINCRBY', meta, 'epoch', 1)
  redis.call('HSET', epochs, thread, epoch)
  redis.call('ZADD', leases, num(now + tonumber(take())), thread)
  table.insert(reply, thread)
  table.insert(reply, num(epoch))
  table.insert(reply, first[2])
  wrote = true
end
local earliest = redis.call('ZRANGE', leases, 0, 0, 'WITHSCORES')
reply[1] = earliest[1] and num(math.max(0, tonumber(earliest[2]) - now)) or '-1'
if wrote then
  return answer(reply)
end
return reply
