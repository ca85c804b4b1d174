"""Tests of programs that use ackq: run what is queued, and assert what was pushed.

The pytest plugin, which comes with the package, adds the fixtures ``ackq_url``, ``ackq_client``,
``ackq_queue`` and ``ackq_tasks``. With other test runners, `server_url` returns the URL of a server
for tests, and `connected` connects tasks to it.
"""

from ackq.testing.calls import assert_pushed, drain
from ackq.testing.servers import delete, server_url
from ackq.testing.tasks import connected

__all__ = ["assert_pushed", "connected", "delete", "drain", "server_url"]
