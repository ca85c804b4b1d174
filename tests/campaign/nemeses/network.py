"""A proxy before the server breaks connections."""

import math
import random
import time

from tests.faults.proxy import Kind

from .stage import Stage, nemesis


@nemesis("cut connections")
def cut(stage: Stage, draw: random.Random) -> None:
    with stage.fault("cut connections"):
        stage.on.proxy.cut()


@nemesis("mute connections")
def mute(stage: Stage, draw: random.Random) -> None:
    """The connections of now never say a word again; they are not closed."""
    with stage.fault("mute connections"):
        stage.on.proxy.mute()


@nemesis("silence")
def silence(stage: Stage, draw: random.Random) -> None:
    with stage.fault("silence"):
        stage.on.proxy.silent = True
        time.sleep(draw.uniform(0.1, 0.5))
        stage.on.proxy.silent = False


def _harm(kind: Kind, name: str) -> None:
    @nemesis(name)
    def harm(stage: Stage, draw: random.Random) -> None:
        times = draw.randint(1, 5)
        with stage.fault(name, times=times):
            command = draw.choice([b"EVALSHA", b"EVALSHA", b"LPUSH", b"BLMOVE"])
            stage.on.proxy.fail(command, kind, times=times, skip=draw.randrange(20), seconds=0.3)
        # What has not struck by the end would strike the drain, which nothing may disturb.
        stage.later(math.inf, stage.on.proxy.faults.clear)


_harm("lose_reply", "lose a reply")
_harm("cut_reply", "cut a reply")
_harm("lose_request", "lose a request")
_harm("half_close", "half-close")
_harm("drip", "drip a reply")
_harm("delay", "delay a reply")
