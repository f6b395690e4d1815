-- Lists a file, and returns those that make room for it.
local file, bytes, bytes_max = unpack(ARGV)
if redis.call('HEXISTS', SESSION, 'epoch') == 0 then
  return false
end
local gone = {}
if redis.call('ZSCORE', FILES, file) then
  return gone
end
local number = redis.call('HINCRBY', SESSION, 'files', 1)
redis.call('ZADD', FILES, number, file)
-- The list lasts as long as the session.
local left = redis.call('PTTL', SESSION)
if left > 0 then
  redis.call('PEXPIRE', FILES, left)
end
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
