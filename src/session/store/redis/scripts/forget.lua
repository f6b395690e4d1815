-- If a lease is named, only its holder forgets the session. Otherwise, this leaves a note for a while: whose lease
-- it was, or had been last. A turn that runs there, or whose end was not confirmed or read yet, can be told by it from
-- one that the server has lost. The note also has the answer to this request, for a repetition after its connection was
-- cut.
local note_ms, request, grant = unpack(ARGV)
if grant and not holds(grant) then
  return false
end
local before = redis.call('TYPE', SESSION).ok == 'hash' and redis.call('HMGET', SESSION, 'request', 'answer') or {}
if before[1] == request then
  return cjson.decode(before[2])
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
local has, left = redis.call('HMGET', SESSION, 'version', 'grant', 'given_back', 'epoch'), note()
if not grant and left and not has[4] and not was_foreign then
  -- It was forgotten a moment ago. The note stays as it is.
  return {0, {}}
end
if not grant and (has[1] or has[2] or was_foreign or redis.call('EXISTS', LOG) == 1) then
  left = has[2] or has[3] or ''
end
local answer = {(has[1] or was_foreign) and 1 or 0, remove()}
if left then
  leave_note(left, note_ms, request, cjson.encode(answer))
end
return answer
