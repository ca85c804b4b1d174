"""The handler that the image runs."""

from ackq import Message


def handle(message: Message) -> None:
    print(message.id, message.json())
