"""A server in a container, if a Docker engine answers."""

import contextlib
import gc
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .target import Absent, Offer, Target, url_target

#: The official image, pinned.
DEFAULT_IMAGE = "redis:7.4.1"
#: Where an engine listens unless DOCKER_HOST names another place.
SOCKET = Path("/var/run/docker.sock")


def offer() -> Offer:
    image = os.environ.get("ACKQ_TEST_REDIS_IMAGE") or DEFAULT_IMAGE
    environment = _image_environment(image)
    version = environment.get("REDIS_VERSION", "unknown")

    @contextlib.contextmanager
    def start(directory: Path) -> Iterator[Target]:
        with _container_class()(image) as container:
            url = (
                f"redis://{container.get_container_host_ip()}:{container.get_exposed_port(6379)}/0"
            )
            yield url_target("container", version, url)

    return Offer("container", version, start, note=f"image {image}")


def _image_environment(image: str) -> dict[str, str]:
    """Return the variables that the image sets, pulled first if need be."""
    with contextlib.closing(engine_with_image(image)) as engine:
        variables = engine.images.get(image).attrs["Config"]["Env"] or []
    return dict(variable.split("=", 1) for variable in variables)


def engine_with_image(image: str) -> Any:
    """Return a client of the Docker engine, which has the image, pulled first if need be.

    Raises:
        Absent: no engine answers, or the image can be neither found nor pulled.
    """
    if not (os.environ.get("DOCKER_HOST") or SOCKET.exists()):
        raise Absent("no Docker engine answers")
    from docker.errors import DockerException  # a heavy import, only where there may be an engine

    engine = _engine()
    if engine is None:
        raise Absent("no Docker engine answers")
    try:
        _local_or_pulled(engine, image)
    except DockerException as error:
        engine.close()
        raise Absent(f"image {image} is not here and cannot be pulled: {error}") from error
    return engine


def _engine() -> Any:
    """Return a client of the Docker engine, or None where none answers."""
    import docker
    from docker.errors import DockerException

    # A client that cannot connect leaves its socket open, to be found within some later test.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        try:
            return docker.from_env(timeout=20)
        except DockerException:
            pass
        gc.collect()
    return None


def _local_or_pulled(engine: Any, image: str) -> None:
    from docker.errors import ImageNotFound

    try:
        engine.images.get(image)
    except ImageNotFound:
        engine.images.pull(image)


def _container_class() -> Any:
    from testcontainers.core.config import testcontainers_config

    # The reaper is one more image to pull. The session stops its container itself.
    testcontainers_config.ryuk_disabled = True
    try:
        from testcontainers.community.redis import RedisContainer
    except ImportError:  # where older releases have it
        from testcontainers.redis import RedisContainer
    return RedisContainer
