"""The options of a source that describe the format of bodies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

from ackq.errors import ConfigurationError
from ackq.spark.formats.misfit import Decode
from ackq.spark.raw_options import RawOptions, refused
from ackq.spark.values import parse

if TYPE_CHECKING:
    from pyspark.sql.types import StructField

Name = Literal["json", "avro", "protobuf", "csv", "text"]
NAMES: tuple[Name, ...] = ("json", "avro", "protobuf", "csv", "text")
#: The options of this module.
SCHEMA_FILE = "schemaFile"
OPTIONS = ("format", SCHEMA_FILE, "schemaRegistry", "messageType", "delimiter", "envelope")
#: Formats whose bodies are described by a schema, and the package that decodes them.
WITH_SCHEMA = {"avro": "fastavro", "protobuf": "google.protobuf"}
#: The largest schema file, since it is sent to every task.
_MAX_SCHEMA = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class BodyFormat:
    """How bodies are decoded. Pickled into every task, so it contains the schema itself."""

    name: Name = "json"
    #: The content of the schema file.
    schema: bytes | None = None
    #: The URL of the schema registry whose schemas the bodies name.
    registry: str | None = None
    #: The message of a Protobuf schema file; None: its only one.
    message_type: str | None = None
    #: Between the cells of CSV.
    delimiter: str = ","
    #: What the bodies are wrapped in.
    envelope: Literal["cloudevents"] | None = None
    #: Seconds for which the registry may be unreachable.
    retry_timeout: float = 0.0

    @classmethod
    def of(cls, raw: RawOptions, retry_timeout: float) -> BodyFormat:
        """Read the options, and the schema file.

        Raises:
            ConfigurationError: an option does not apply to the format, the file cannot be read, or
                the package that decodes the format is not installed.
        """
        name = cast(Name, raw.choice("format", "json", NAMES))
        file, registry = raw.text(SCHEMA_FILE), raw.text("schemaRegistry")
        if name in WITH_SCHEMA:
            if (file is None) == (registry is None):
                raise ConfigurationError(
                    f"format {name!r} needs either 'schemaFile' or 'schemaRegistry'"
                )
        else:
            _refuse(raw, name, (SCHEMA_FILE, "schemaRegistry"), tuple(WITH_SCHEMA))
        if name != "protobuf" or file is None:
            _refuse(raw, name, ("messageType",), ("protobuf with a schema file",))
        if name != "csv":
            _refuse(raw, name, ("delimiter",), ("csv",))
        if name != "json":
            _refuse(raw, name, ("timeField",), ("json",))
        made = cls(
            name,
            None if file is None else _content(file),
            None if registry is None else _registry_url(registry),
            raw.text("messageType"),
            _delimiter(raw),
            _envelope(raw),
            retry_timeout,
        )
        made._check()
        return made

    @property
    def is_plain_json(self) -> bool:
        """Whether bodies are JSON objects with the columns as fields."""
        return self.name == "json" and self.envelope is None

    def decoder(self, columns: Sequence[StructField]) -> Decode:
        """Return the decoder of bodies with these columns.

        Raises:
            ConfigurationError: a column does not fit the format, or the schema is not valid.
        """
        if self.envelope is not None:
            from ackq.spark.formats import cloudevents

            return cloudevents.decoder(columns, self.name, self._decoder)
        return self._decoder(columns)

    def _decoder(self, columns: Sequence[StructField]) -> Decode:
        if self.name == "json":
            return partial(parse, exact=True)
        if self.name in ("csv", "text"):
            from ackq.spark.formats import lines

            return lines.decoder(columns, self.delimiter if self.name == "csv" else None)
        codec = import_module(f"ackq.spark.formats.{self.name}")
        if self.registry is not None:
            from ackq.spark.formats import registry

            return registry.decoder(self.registry, self.name, self.retry_timeout)
        assert self.schema is not None
        decode: Decode = codec.from_file(self.schema, self.message_type, columns)
        return decode

    def _check(self) -> None:
        """Raise an error for a schema file that is not valid, or a package that is missing."""
        package = WITH_SCHEMA.get(self.name)
        if package is None:
            return
        if not _is_installed(package):
            raise ConfigurationError(
                f"format {self.name!r} needs {package}: pip install 'ackq[formats]'"
            )
        self._decoder(())


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # of the package around it
        return False


def _refuse(raw: RawOptions, name: str, options: Sequence[str], fitting: Sequence[str]) -> None:
    for option in options:
        if option in raw:
            formats = " and ".join(fitting)
            raise ConfigurationError(f"option {option!r} is for {formats}, not for {name}")


def _content(file: str) -> bytes:
    try:
        content = Path(file).read_bytes()
    except OSError as error:
        raise ConfigurationError(f"option 'schemaFile': {file!r}: {error.strerror}") from None
    if len(content) > _MAX_SCHEMA:
        raise ConfigurationError(
            f"option 'schemaFile': {file!r} has {len(content):,} bytes, more than {_MAX_SCHEMA:,}"
        )
    return content


def _registry_url(url: str) -> str:
    from urllib.parse import urlsplit

    from ackq.spark.formats.registry import LOGIN_VARIABLE

    try:
        parts = urlsplit(url)
    except ValueError:
        raise refused("schemaRegistry", "a URL such as 'http://registry:8081'", url) from None
    if "@" in parts.netloc:
        raise ConfigurationError(
            "option 'schemaRegistry' contains a user or a password, which would appear in plans"
            f" and logs: put user:password into the environment variable {LOGIN_VARIABLE} of driver"
            " and executors"
        )
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise refused("schemaRegistry", "a URL such as 'http://registry:8081'", url)
    return url.rstrip("/")


def _delimiter(raw: RawOptions) -> str:
    delimiter = raw.character("delimiter", ",")
    if delimiter in '"\r\n':
        raise refused("delimiter", "a character that CSV does not use itself", delimiter)
    return delimiter


def _envelope(raw: RawOptions) -> Literal["cloudevents"] | None:
    if "envelope" not in raw:
        return None
    return cast(Literal["cloudevents"], raw.choice("envelope", "", ("cloudevents",)))
