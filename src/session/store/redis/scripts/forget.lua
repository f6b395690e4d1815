-- If a lease is named, only its holder forgets the session. Otherwise, this leaves a note for a while: whose lease
-- it was. A turn that runs there, and its readers, can tell by it that the server has not lost the session.
local note_ms, grant = unpack(ARGV)
if grant and not holds(grant) then
  return false
end
-- What somebody else has written under these names goes too, or else it could never be forgotten.
local was_foreign = false
if not grant then
  for at, kind in ipairs({'hash', 'stream', 'hash', 'string', 'zset'}) do
    local is = redis.call('TYPE', KEYS[at]).ok
    if is ~= kind and is ~= 'none' then
      redis.call('DEL', KEYS[at])
      was_foreign = true
    end
  end
end
local has = redis.call('HMGET', SESSION, 'version', 'grant')
local is_noted = not grant and (has[2] or redis.call('EXISTS', JOURNAL) == 1)
local files = remove()
if is_noted then
  redis.call('HSET', SESSION, 'forgotten', has[2] or '')
  redis.call('PEXPIRE', SESSION, note_ms)
end
return {(has[1] or was_foreign) and 1 or 0, files}
