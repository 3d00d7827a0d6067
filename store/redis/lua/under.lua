-- Lists a hash's fields between two ends of their index.
local reply = {now}
for _, key in ipairs(redis.call('ZRANGEBYLEX', KEYS[1], ARGV[2], ARGV[3])) do
  table.insert(reply, key)
  table.insert(reply, redis.call('HGET', KEYS[2], key))
end
return reply
