-- Lists the items of a leased thread, oldest first: key, body.
local leases, epochs, line, bodies = unpack(KEYS)
local till = redis.call('ZSCORE', leases, ARGV[2])
if not till or tonumber(till) <= tonumber(now) or redis.call('HGET', epochs, ARGV[2]) ~= ARGV[3] then
  return {'stale'}
end
local reply = {'ok'}
for _, key in ipairs(redis.call('ZRANGE', line, 0, -1)) do
  table.insert(reply, key)
  table.insert(reply, redis.call('HGET', bodies, key))
end
return reply
