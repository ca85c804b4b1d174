-- A message deep in a list is canceled by a note in RECEIVES, under CANCELS and its id: for each
-- body a line of the time (µs) at which the note ends, how many such messages are canceled, and the
-- mark of the body. Under CANCELS itself are the time (µs) from which notes count, and how many ids
-- have one.
local CANCELS = '\0canceled'
