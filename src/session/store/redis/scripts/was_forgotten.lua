-- Whether a session with this id was forgotten a moment ago.
return note() and 1 or 0
