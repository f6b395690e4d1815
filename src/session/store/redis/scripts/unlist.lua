-- Takes a session whose lease was given back off the list of running turns, unless another lease has been taken
-- since: that lapses later.
local score = redis.call('ZSCORE', KEYS[1], ARGV[1])
if score and tonumber(score) <= tonumber(ARGV[2]) then
  redis.call('ZREM', KEYS[1], ARGV[1])
end
