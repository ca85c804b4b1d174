"""What RQ imports by name."""


def handle(n: int, payload: str) -> None:
    import counting

    counting.work()
