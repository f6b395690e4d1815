-- Releases a claim.
local key, holder = unpack(ARGV)
local _, has = holder_of(redis.call('HGET', CLAIMS, key))
if has ~= holder then
  return 0
end
redis.call('HDEL', CLAIMS, key)
redis.call('ZREM', CLAIMED, key)
return 1
