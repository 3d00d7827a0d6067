-- Gives leases back. One that is lost is a refused write if the caller is strict, else it is passed over.
local strict = take() == '1'
for _ = 1, tonumber(take()) do
  local thread, epoch, score = take(), take(), take()
  if live(thread, epoch) then
    free(thread, score ~= '' and score)
  elseif strict then
    return stale()
  end
end
return answer({'ok'})
