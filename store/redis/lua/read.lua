-- Begins every script that only reads. ARGV[1] is empty (tests put a standing clock there).
local now = ARGV[1]
if now == '' then
  local t = redis.call('TIME')
  now = string.format('%.0f', t[1] * 1000000 + t[2])
end

