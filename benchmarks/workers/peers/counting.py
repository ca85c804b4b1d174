"""Shared code of the peers: arguments and a counting handler. Runs in the peers' environments."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import sys
import time

URL = sys.argv[1]
MESSAGES = int(sys.argv[2])
SLEEP = float(sys.argv[3])
CONCURRENCY = int(sys.argv[4])
#: What each message carries beside its number.
PAYLOAD = "x" * 60

_count = itertools.count(1)
_begin = _begin_cpu = 0.0


def work() -> None:
    """Handle a message: sleep, or do nothing."""
    number = next(_count)
    if number == 1:
        _start()
    if SLEEP:
        time.sleep(SLEEP)
    if number == MESSAGES:
        _finish()


async def work_async() -> None:
    """Handle a message on asyncio."""
    number = next(_count)
    if number == 1:
        _start()
    if SLEEP:
        await asyncio.sleep(SLEEP)
    if number == MESSAGES:
        _finish()


def _start() -> None:
    global _begin, _begin_cpu
    _begin, _begin_cpu = time.perf_counter(), time.process_time()


def _finish() -> None:
    seconds = time.perf_counter() - _begin
    cpu = time.process_time() - _begin_cpu
    print(json.dumps({"seconds": seconds, "cpu": cpu}), flush=True)
    os._exit(0)  # nobody's shutdown is measured
