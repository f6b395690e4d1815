-- What every script of an owner begins with: its keys, and what they mean.
local AGES, ENTRIES, NAMES, CLAIMS, CLAIMED = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- An entry with the number n is in three fields of ENTRIES: its content in n, its epoch in n:e, its keys in n:k,
-- one after the other. The field 'last' has the last number, and 'bytes' the size of all entries together. NAMES has
-- the numbers under each key, the newest first. AGES has the numbers by the time at which they were written.
local KEY_BYTES = 32

-- About what an entry takes beside its content and its keys: its fields, and its place in AGES.
local ENTRY_BYTES = 200

-- How often the bytes of a key are counted: it is in n:k and in NAMES, with what a field takes there.
local KEY_WEIGHT = 4

-- How many expired entries or claims one call drops at most, so that none is slow.
local DROPPED_MAX = 100

-- What an entry takes whose content has so many bytes.
local function size(content, keys)
  return content + ENTRY_BYTES + #keys * KEY_WEIGHT
end

-- CLAIMS has each claim as 'holder until', in milliseconds, or 'holder 0' if it does not lapse. CLAIMED has their
-- keys by the time at which they were acquired. Returns whether a claim counts, its holder, and its end.
local function holder_of(claim)
  if not claim then
    return false
  end
  local holder, ends = string.match(claim, '^(%d+) (%d+)$')
  return ends == '0' or tonumber(ends) > now, holder, ends
end

-- Drops an entry, and its number under each of its keys.
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
