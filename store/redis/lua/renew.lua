-- Extends a lease.
local thread, epoch, ttl = take(), take(), take()
if not live(thread, epoch) then
  return stale()
end
redis.call('ZADD', leases, num(now + tonumber(ttl)), thread)
return answer({'ok'})
