"""Mistakes that are planted in several scripts, most of them in functions of lua/parts."""

from tests.facts.mistakes import read

#: By what they are.
SHARED = {
    mistake.what: mistake
    for _, mistake in read(r"""
  errors cost nothing
  - bytes = bytes + #entry[2][i + 1]
  + bytes = bytes + (entry[2][i] == 'body' and #entry[2][i + 1] or 0)
  counts into what is somebody else's
  - redis.call('HEXISTS', counters, 'since') == 1
  + redis.call('HLEN', counters) > 0
  a step begins at the front
  - redis.call('LRANGE', claim, first, rows - 1)
  + redis.call('LRANGE', claim, 0, rows - first - 1)
  a note of another message costs nothing
  - + 4 * #note
  + + 4 * #found * 1000000
""")
}
