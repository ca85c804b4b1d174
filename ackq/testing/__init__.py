"""Tests of programs that use ackq: run what is queued, and assert what was pushed.

The pytest plugin, which comes with the package, adds the fixtures ``ackq_url``, ``ackq_client`` and
``ackq_queue``. With other test runners, `server_url` returns the URL of a server for tests.
"""

from ackq.testing.calls import assert_pushed, drain
from ackq.testing.servers import delete, server_url

__all__ = ["assert_pushed", "delete", "drain", "server_url"]
