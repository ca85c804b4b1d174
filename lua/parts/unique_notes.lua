-- RECEIVES notes each message of a unique push: on a list with its count, the mark of its body, and
-- the µs until which the note is believed, or 0; elsewhere with a : instead of a count, or a space
-- behind it. The field is the id, so an ack deletes the note. With "taken" it is another field
-- while the message is on a list, because one of this id may be in flight; pop deletes it. That
-- field may also hold the lease key of a delayed message, if it is not the id: with - instead of :,
-- because pop sweeps notes with a :.
local TAKEN = '\0unique:'
