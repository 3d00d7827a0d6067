-- Reads a field and when it ends.
return {now, redis.call('HGET', KEYS[1], ARGV[2]) or '', redis.call('ZSCORE', KEYS[2], ARGV[2]) or '', redis.call('HEXISTS', KEYS[1], ARGV[2])}
