"""Fetch schemas from a schema registry. Each body names its own by a number.

The wire format is Confluent's: a zero byte, the number of the schema in four bytes, the data. Its
registry is not the only one with this interface: Redpanda's, Karapace and Apicurio have it, too.
"""

from __future__ import annotations

import base64
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from http.client import HTTPException
from importlib import import_module
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request, urlopen

from ackq.errors import SchemaRegistryError
from ackq.spark.connection import retry
from ackq.spark.formats.misfit import Decode, Misfit

#: The environment variable with ``user:password``.
LOGIN_VARIABLE = "ACKQ_SCHEMA_REGISTRY_LOGIN"
_MAGIC, _HEADER = b"\x00", 5
#: Seconds that a request may take, and bytes that a reply may have.
_TIMEOUT, _MAX_REPLY = 10.0, 16 * 1024 * 1024
#: Most files that a schema refers to.
_MAX_REFERENCES = 1000
#: Most schemas that a process keeps, and seconds after which it asks again for a missing one.
_KEPT, _ASK_AGAIN = 10_000, 60.0
#: Names of formats in replies. A reply without one is about Avro.
_TYPES = {"avro": "AVRO", "protobuf": "PROTOBUF"}
_UNKNOWN = "its schema is not in the registry"
#: Replies that say that there is no such schema, and the first one of a server that is broken.
_MISSING, _BROKEN = (404, 422), 500


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema, and what it refers to."""

    #: JSON of Avro, or a descriptor of Protobuf in base64.
    text: str
    #: The texts of the schemas to which it refers, each after the schemas that it needs.
    references: tuple[str, ...]
    #: The names by which they are referred to.
    reference_names: tuple[str, ...]
    #: Where the data begin in a body.
    start: int = _HEADER


def decoder(url: str, format: str, retry_timeout: float) -> Decode:
    """Return the decoder of bodies that name their schema.

    The decoder raises `SchemaRegistryError` if the registry cannot be asked.

    Args:
        url: of the registry.
        format: "avro" or "protobuf".
        retry_timeout: seconds for which the registry may be unreachable.
    """
    return partial(_decode, _registry(url, format, retry_timeout))


def _decode(registry: _Registry, body: bytes) -> dict[str, Any]:
    if len(body) < _HEADER or body[:1] != _MAGIC:
        raise Misfit("names no schema")
    return registry.decoder_of(int.from_bytes(body[1:_HEADER], "big"))(body)


@lru_cache(maxsize=8)
def _registry(url: str, format: str, retry_timeout: float) -> _Registry:
    """Return a registry. Cached, so a reused process keeps its schemas."""
    return _Registry(url, format, retry_timeout)


class _Registry:
    """The decoders for the schemas of one registry."""

    def __init__(self, url: str, format: str, retry_timeout: float) -> None:
        self._url, self._format, self._retry_timeout = url, format, retry_timeout
        self._from_registry: Callable[[RegisteredSchema], Decode] = import_module(
            f"ackq.spark.formats.{format}"
        ).from_registry
        self._decoders: dict[int, Decode] = {}
        #: Schemas that cannot be used: why, and until when that holds.
        self._refused: dict[int, tuple[str, float]] = {}

    def __reduce__(self) -> Any:
        return _registry, (self._url, self._format, self._retry_timeout)

    def decoder_of(self, number: int) -> Decode:
        """Return the decoder for a schema.

        Raises:
            Misfit: the registry does not have it, or it is not of the format.
            SchemaRegistryError: the registry cannot be asked.
        """
        if (decoder := self._decoders.get(number)) is not None:
            return decoder
        reason, until = self._refused.get(number, ("", 0.0))
        if time.monotonic() < until:
            raise Misfit(reason)
        try:
            made = self._from_registry(self._schema(number))
        except Misfit as misfit:
            _keep(self._refused, number, (str(misfit), time.monotonic() + _ASK_AGAIN))
            raise
        _keep(self._decoders, number, made)
        return made

    def _schema(self, number: int) -> RegisteredSchema:
        answer = self._get(f"/schemas/ids/{number}")
        if answer.get("schemaType", "AVRO") != _TYPES[self._format]:
            raise Misfit("its schema is of another format")
        references: dict[str, str] = {}
        self._add_references(answer, references)
        return RegisteredSchema(answer["schema"], (*references.values(),), (*references,))

    def _add_references(self, schema: Any, references: dict[str, str]) -> None:
        for each in schema.get("references") or ():
            if each["name"] in references:
                continue
            if len(references) >= _MAX_REFERENCES:
                raise Misfit("its schema refers to too many others")
            subject = quote(each["subject"], safe="")
            answer = self._get(f"/subjects/{subject}/versions/{int(each['version'])}")
            self._add_references(answer, references)
            references[each["name"]] = answer["schema"]

    def _get(self, path: str) -> Any:
        """Return a reply that has a schema."""
        query = "?format=serialized" if self._format == "protobuf" else ""
        try:
            reply = retry(
                lambda: _fetch(f"{self._url}{path}{query}"), self._retry_timeout, "The registry"
            )
            parsed = None if reply is None else json.loads(reply)
        except (OSError, ValueError) as error:
            raise SchemaRegistryError(
                f"the schema registry {self._url} does not answer {path}: {error}."
                f" A login goes into the environment variable {LOGIN_VARIABLE}"
            ) from error
        if parsed is None:
            raise Misfit(_UNKNOWN)
        if not isinstance(parsed, dict) or not isinstance(parsed.get("schema"), str):
            raise SchemaRegistryError(f"{self._url}{path} is not the reply of a schema registry")
        return parsed


def _fetch(url: str) -> bytes | None:
    """Return a reply; None: there is no such schema.

    Raises:
        OSError: the registry cannot be reached, or fails; a retry may help.
        ValueError: it refuses to answer.
    """
    request = Request(url, headers={"Accept": "application/vnd.schemaregistry.v1+json"})
    if login := os.environ.get(LOGIN_VARIABLE):
        # Not for the host of a redirect.
        request.add_unredirected_header(
            "Authorization", f"Basic {base64.b64encode(login.encode()).decode()}"
        )
    try:
        with urlopen(request, timeout=_TIMEOUT) as reply:
            content: bytes = reply.read(_MAX_REPLY)
            return content
    except HTTPError as error:
        with error:
            if error.code in _MISSING:
                return None
            if error.code < _BROKEN:
                raise ValueError(f"{error.code} {error.reason}") from None
            raise
    except HTTPException as error:
        raise OSError(f"no valid reply: {error!r}") from error


def _keep(kept: dict[int, Any], number: int, value: Any) -> None:
    if len(kept) >= _KEPT:
        del kept[next(iter(kept))]
    kept[number] = value
