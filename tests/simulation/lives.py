"""What simulated processes do."""

import random

from tests.products.loops import Consumer, Habits, Producer

from .journal import Journal
from .products import Order, SimulatedProduct
from .steps import sleep


async def produce(
    product: SimulatedProduct, log: Journal, by: str, draw: random.Random, until: float
) -> None:
    """Push until that time."""
    producer = Producer(product, habits_of(product), log, by, draw)
    while log.now() < until:
        await producer.push()
        await sleep(draw.expovariate(3))


async def consume(
    product: SimulatedProduct, log: Journal, by: str, draw: random.Random, until: float
) -> None:
    """Take and settle until that time."""
    consumer = Consumer(product, habits_of(product), log, by, draw)
    while log.now() < until:
        await consumer.work()


async def drain(
    product: SimulatedProduct, log: Journal, draw: random.Random, within: float
) -> None:
    """Take and ack what is left, and write what is stored then."""
    stored = await Consumer(product, habits_of(product), log, "drain", draw).drain(within)
    left = await product.left()
    log.write(do="left", messages=stored, **left)


async def operate(
    product: SimulatedProduct, log: Journal, by: str, draw: random.Random, until: float
) -> None:
    """Do something to the queue now and then."""
    while log.now() < until:
        await sleep(draw.expovariate(4))
        planned = await product.attempt(product.plan(draw), draw, log)
        if planned.result is not None:
            await _act(product, planned.result, log, draw)


async def _act(product: SimulatedProduct, order: Order, log: Journal, draw: random.Random) -> None:
    if not order.verb:
        await product.attempt(order.act(), draw, log)
        return
    call = log.begin(order.verb, ids=order.ids, delay=order.delay)
    found = await product.attempt(order.act(), draw, log)
    log.end(call, found.state_of_chosen(len(order.ids), order.is_resent))


def habits_of(product: SimulatedProduct) -> Habits:
    """Return what the producers and consumers of a product draw from."""
    return Habits(
        batches=(1, 1, 2, 5),
        straddling=0.3,
        extending=0.5,
        verbs=product.verbs,
        delays=product.delays,
        nacks=(0.0, 0.1, 0.7),
        timeouts=(None, 0.2, 1.0),
        sharers=product.sharers,
        once=0.5,
        working=0.02,
        unsure=tuple(product.verbs),
    )
