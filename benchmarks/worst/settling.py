"""The list queue: settling and extending leased messages."""

from ackq import Message
from benchmarks.worst.scene import Scene
from tests.facts.failures import note_failures


def failed(scene: Scene, failure: bytes) -> list[Message]:
    """Return 100 messages with five noted failures, whose handlers failed once more."""
    held = scene.held(100)
    note_failures(scene, scene.keys.errors, scene.keys.receives, 100, failure)
    for message in held:
        message.failure = failure
    return held
