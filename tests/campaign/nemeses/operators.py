"""An operator pauses the queue for a while."""

import random

from ackq.ops.kinds.lists import open_list

from .stage import Stage, nemesis


@nemesis("pause the queue")
def pause(stage: Stage, draw: random.Random) -> None:
    with stage.fault("pause the queue"), stage.crew.site.client() as client:
        open_list(client, stage.crew.site.name).client.pause()

    def resume() -> None:
        with stage.crew.site.client() as client:
            open_list(client, stage.crew.site.name).client.resume()

    stage.later(draw.uniform(0.05, 0.5), resume)
