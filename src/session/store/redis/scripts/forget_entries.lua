-- Drops all entries of an owner, and returns how many there were. Claims stay.
local count = redis.call('ZCARD', AGES)
redis.call('UNLINK', AGES, ENTRIES, NAMES)
return count
