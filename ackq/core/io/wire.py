"""Commands as bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import hiredis

from ackq.core.effects import Arg

#: Return a command in the Redis protocol. redis-py packs in Python on asyncio; hiredis does the
#: same in C, so both clients use it. Its type stub describes a tuple of one element.
pack = cast(Callable[[tuple[Arg, ...]], bytes], hiredis.pack_command)
