-- Returns the entries under these keys, and the places of those keys that are claimed.
local ttl, bytes_max = unpack(ARGV, 1, 2)
local oldest = now - ttl
local found, seen, bytes, claimed = {}, {}, 0, {}
for at = 3, #ARGV do
  for number in string.gmatch(redis.call('HGET', NAMES, ARGV[at]) or '', '%d+') do
    if not seen[number] and bytes <= tonumber(bytes_max) then
      seen[number] = true
      local entry = redis.call('HMGET', ENTRIES, number, number .. ':e', number .. ':k')
      local written = redis.call('ZSCORE', AGES, number)
      if entry[1] and written and tonumber(written) > oldest then
        bytes = bytes + #entry[1]
        found[#found + 1] = {number, entry[2], entry[3], entry[1]}
      end
    end
  end
  if holder_of(redis.call('HGET', CLAIMS, ARGV[at])) then
    claimed[#claimed + 1] = at - 2
  end
end
return {found, claimed}
