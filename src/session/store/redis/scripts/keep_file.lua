-- Lists a file, and returns those that make room for it.
local file, bytes, bytes_max, ttl = unpack(ARGV)
if redis.call('HEXISTS', SESSION, 'epoch') == 0 then
  return false
end
local gone = {}
if redis.call('ZSCORE', FILES, file) then
  return gone
end
local number = redis.call('HINCRBY', SESSION, 'files', 1)
redis.call('ZADD', FILES, number, file)
redis.call('PEXPIRE', FILES, ttl)
local sum = redis.call('HINCRBY', SESSION, 'file_bytes', bytes)
while sum > tonumber(bytes_max) do
  local oldest = redis.call('ZPOPMIN', FILES)[1]
  if not oldest then
    break
  end
  gone[#gone + 1] = oldest
  sum = redis.call('HINCRBY', SESSION, 'file_bytes', -string.match(oldest, '%d+$'))
end
return gone
