"""The server dies, its power is cut, its disk is slow or full."""

import contextlib
import random
import threading
import time

import redis

from tests.histories.log import now
from tests.waiting import wait_until

from .stage import Effect, Stage, nemesis

#: Commands that a server loads slowly. It answers others once in 1,024 of them.
BALLAST = 6000


@nemesis("kill the server")
def kill_server(stage: Stage, draw: random.Random) -> None:
    with stage.fault("kill the server") as effect:
        _restart(stage, effect)


@nemesis("load slowly")
def load_slowly(stage: Stage, draw: random.Random) -> None:
    """The server dies, and answers LOADING for a while before it is back."""
    with redis.Redis(port=stage.on.server.port) as client, client.pipeline(False) as ballast:
        for _ in range(BALLAST):
            ballast.incr("ballast")
        ballast.execute()
    with stage.fault("load slowly") as effect, stage.on.loading_slowly(draw.randint(100, 300)):
        stage.on.server.kill()
        effect.since = stage.on.undone_since(power=False)
        stage.on.machine.repair_log(stage.on.server)
        starting = threading.Thread(target=stage.on.server.start)
        starting.start()
        effect.times = 0
        while starting.is_alive() and not effect.times:
            effect.times = int(_is_loading(stage))
        starting.join()


def _answers(stage: Stage) -> bool:
    """Whether the server has not met the full disk: else it is about to end."""
    with redis.Redis.from_url(stage.on.server.url, socket_timeout=2) as client:
        try:
            return bool(client.ping())
        except redis.RedisError:
            return False


def _is_loading(stage: Stage) -> bool:
    with redis.Redis.from_url(stage.on.server.url, retry=None, socket_timeout=2) as client:
        try:
            client.ping()
        except redis.BusyLoadingError:
            return True
        except redis.RedisError:
            pass  # not listening yet
    return False


@nemesis("cut the power")
def cut_power(stage: Stage, draw: random.Random) -> None:
    """What was not synced is gone. Half of the times a sync is under way."""
    machine = stage.on.machine
    with contextlib.ExitStack() as stack:
        if draw.random() < 0.5:
            stack.enter_context(machine.stalled())
            _wait_for_a_sync(stage, draw.uniform(0.0, 0.1))
        with stage.fault("cut the power") as effect:
            machine.cut_power(stage.on.server, draw)
            effect.since = stage.on.undone_since(power=True)
            stack.close()
            machine.repair_log(stage.on.server)
            stage.on.server.start()


def _wait_for_a_sync(stage: Stage, seconds: float) -> None:
    until = now() + 1.0  # nothing is synced where nothing is persistent
    while not stage.on.machine.waiting and now() < until:
        time.sleep(0.001)
    time.sleep(seconds)


@nemesis("stall the disk")
def stall_disk(stage: Stage, draw: random.Random) -> None:
    with stage.fault("stall the disk"), stage.on.machine.stalled():
        time.sleep(draw.uniform(0.05, 0.6))


@nemesis("fill the disk")
def fill_disk(stage: Stage, draw: random.Random) -> None:
    """Under ``always`` the server ends when it cannot write its log; then it is started again."""
    with stage.fault("fill the disk") as effect:
        with stage.on.machine.full():
            time.sleep(draw.uniform(0.1, 0.4))
        wait_until(lambda: stage.on.has_died() or _answers(stage), "the server to answer or to end")
        if stage.on.has_died():
            _restart(stage, effect)


def _restart(stage: Stage, effect: Effect) -> None:
    stage.on.server.kill()
    effect.since = stage.on.undone_since(power=False)
    stage.on.machine.repair_log(stage.on.server)
    stage.on.server.start()
