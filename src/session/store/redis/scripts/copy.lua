local has = redis.call('HMGET', SESSION, 'version', 'epoch', 'used')
if not has[1] then
  return false
end
local copied = {}
for at, log in ipairs(logs()) do
  local number = string.format('%.0f', log[1])
  local batches = redis.call('XRANGE', LOG, number .. '-0', number)
  copied[at] = {log[3], log[4], redis.call('HGET', JOURNAL, log[3]), batches}
end
return {has[2], has[3], redis.call('GET', RECORD), copied, redis.call('ZRANGE', FILES, 0, -1)}
