-- What every script of an owner begins with: its keys, and what they mean.
local AGES, ENTRIES, NAMES, CLAIMS, CLAIMED = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- An entry with the number n is in three fields: its content in n, its epoch in n:e, its keys in n:k, one
-- after the other.
local KEY_BYTES = 32

-- What an entry takes, without its content.
local function size(content, keys)
  return content + 200 + #keys * 4
end

-- Whether a claim counts: 'holder until', which is 0 if it does not lapse. Also returns both.
local function holder_of(claim)
  if not claim then
    return false
  end
  local holder, ends = string.match(claim, '^(%d+) (%d+)$')
  return ends == '0' or tonumber(ends) > now, holder, ends
end

-- Drops an entry.
local function drop(number)
  local keys = redis.call('HGET', ENTRIES, number .. ':k')
  redis.call('ZREM', AGES, number)
  if not keys then
    return
  end
  for at = 1, #keys, KEY_BYTES do
    local key = string.sub(keys, at, at + KEY_BYTES - 1)
    local left = {}
    for other in string.gmatch(redis.call('HGET', NAMES, key) or '', '%d+') do
      if other ~= number then
        left[#left + 1] = other
      end
    end
    if #left > 0 then
      redis.call('HSET', NAMES, key, table.concat(left, ' '))
    else
      redis.call('HDEL', NAMES, key)
    end
  end
  local content = redis.call('HSTRLEN', ENTRIES, number)
  redis.call('HINCRBY', ENTRIES, 'bytes', -size(content, keys))
  redis.call('HDEL', ENTRIES, number, number .. ':e', number .. ':k')
end
