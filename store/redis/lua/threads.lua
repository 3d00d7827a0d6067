-- Says of each thread how many items it has, the epoch of its last lease, and when that ends.
local reply = {now}
for i = 2, #ARGV do
  table.insert(reply, redis.call('ZCARD', KEYS[i + 1]))
  table.insert(reply, redis.call('HGET', KEYS[1], ARGV[i]) or '0')
  table.insert(reply, redis.call('ZSCORE', KEYS[2], ARGV[i]) or '0')
end
return reply
