local has = redis.call('HMGET', SESSION, 'version', 'used', 'file_bytes')
local record = redis.call('GET', RECORD)
if not has[1] or not record then
  return false
end
local bytes = #record + (tonumber(has[3]) or 0)
for _, log in ipairs(logs()) do
  bytes = bytes + log[2]
end
return {has[2], bytes, record}
