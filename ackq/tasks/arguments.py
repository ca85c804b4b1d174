"""The arguments of a task: checked against its signature, as JSON and back."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Annotated, Any, TypeVar

import msgspec

from ackq.core.json_values import not_finite, step
from ackq.errors import ConfigurationError, InvalidArguments
from ackq.queue.messages import Message
from ackq.tasks.comparison import TOO_DEEP, difference, is_same, is_untyped
from ackq.tasks.foreign import decoded, encoded, schema_of, unknown_types

T = TypeVar("T")
#: Packages whose constraints msgspec would ignore.
_OTHER_CONSTRAINTS = ("pydantic", "annotated_types")


class UnknownArgument(InvalidArguments):
    """The function has no parameter of this name. Another version of it may have one."""


class _StateMark:
    """Marks a parameter that gets the state of the lifespan."""


#: The annotation of a parameter that gets the state of the lifespan: ``pool: State[Pool]``.
State = Annotated[T, _StateMark()]
#: The default of a parameter that the worker fills in. It tells type checkers that `push` does not
#: need the argument.
injected: Any = type("injected", (), {"__repr__": lambda _: "injected"})()


class Arguments:
    """The parameters of a function that is a task.

    Annotations may name what its module defines later: then they are checked at the first use.
    """

    def __init__(self, task: str, function: Callable[..., Any], *, batch: bool = False) -> None:
        """Look at the signature.

        Args:
            task: its name.
            function: what it calls.
            batch: whether the function gets the arguments of several messages, as a list.

        Raises:
            ConfigurationError: it has parameters that have no name in a message.
        """
        self._task = task
        self._function = function
        self._batch = batch
        self._parameters = inspect.signature(function).parameters
        for name, parameter in self._parameters.items():
            if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
                raise ConfigurationError(
                    f"task {task!r}: the parameter {parameter} has no name in a message. Arguments"
                    f" travel by name: give the function a parameter such as {name}: list[str]"
                )
        #: The names of the parameters that take arguments by position.
        self.positions = [
            name
            for name, parameter in self._parameters.items()
            if parameter.kind is not parameter.KEYWORD_ONLY
        ]

    # --- what the signature says ----------------------------------------------------------

    @cached_property
    def _hints(self) -> dict[str, Any]:
        try:
            return typing.get_type_hints(self._function, include_extras=True)
        except Exception as error:
            raise self._unresolved(error) from error

    def _unresolved(self, error: Exception) -> ConfigurationError:
        return ConfigurationError(
            f"task {self._task!r}: an annotation cannot be resolved: {error}. Import what it names"
            " outside of TYPE_CHECKING"
        )

    @cached_property
    def state_types(self) -> dict[str, Any]:
        """The types of the parameters that get the state, or a part of it."""
        return {name: hint.__origin__ for name, hint in self._hints.items() if _is_state(hint)}

    @cached_property
    def message_names(self) -> list[str]:
        """The parameters that get the message, or the messages of a batch."""
        hints = {name: self._hints.get(name) for name in self._parameters}
        if self._batch:
            hints = {name: _item_of(hint) for name, hint in hints.items()}
        return [name for name, hint in hints.items() if _is_message(hint)]

    @cached_property
    def injected(self) -> frozenset[str]:
        """The parameters whose arguments are not in a message."""
        return frozenset(self.message_names) | self.state_types.keys()

    @cached_property
    def _types(self) -> dict[str, Any]:
        """The types of the parameters that are a part of a message."""
        types = {
            name: self._hints.get(name, Any)
            for name in self._parameters
            if name not in self.injected
        }
        if not self._batch:
            return types
        items = {name: _item_of(kind) for name, kind in types.items()}
        if len(items) != 1 or None in items.values():
            raise ConfigurationError(
                f"task {self._task!r}: a batch task has one parameter list[…], for the arguments of"
                " the messages, and others that the worker fills in: State[…] and list[Message]"
            )
        return items

    @cached_property
    def _untyped(self) -> frozenset[str]:
        """The parameters that take any JSON, or any object or array."""
        kinds = self._types.items()
        return frozenset(name for name, kind in kinds if is_untyped(kind) and kind is not str)

    @cached_property
    def _struct(self) -> Any:
        fields: list[Any] = []
        for name, kind in self._types.items():
            self._check_type(name, kind)
            default = self._parameters[name].default
            if default is inspect.Parameter.empty:
                fields.append((name, kind))
            else:
                # A factory, since msgspec refuses a default that can be changed.
                fields.append((name, kind, msgspec.field(default_factory=_returns(default))))
        return msgspec.defstruct(
            "Arguments", fields, forbid_unknown_fields=True, kw_only=True, gc=False
        )

    @cached_property
    def _decoder(self) -> msgspec.json.Decoder[Any]:
        try:
            return msgspec.json.Decoder(self._struct, dec_hook=decoded)
        except TypeError as error:
            advice = (
                ". A worker could not tell them apart in JSON: give each type its own parameter or"
                " task, put the union into a model of pydantic, or use structs of msgspec with tags"
            )
            text = f"{error}{advice if 'union' in str(error) else ''}"
            raise ConfigurationError(f"task {self._task!r}: {text}") from error
        except (NameError, AttributeError) as error:
            raise self._unresolved(error) from error

    def _check_type(self, name: str, kind: Any) -> None:
        """Raise an error for a type that no message can hold, or that would not be checked."""
        for part in _parts(kind):
            if type(part).__module__.partition(".")[0] in _OTHER_CONSTRAINTS and not isinstance(
                part, type
            ):
                raise ConfigurationError(
                    f"task {self._task!r}: {part!r} of {name!r} would not be checked: write"
                    " msgspec.Meta(…), or put the argument into a model of pydantic"
                )
        for unknown in unknown_types(kind):
            raise ConfigurationError(
                f"task {self._task!r}: {name!r} is or contains {unknown.__name__}, which cannot be"
                " read from JSON: pass text, a number, a dataclass or a model instead"
            )

    def check(self, *, early: bool = False) -> None:
        """Resolve the annotations now.

        Args:
            early: accept names that may be defined later. Defaults to False.

        Raises:
            ConfigurationError: one of them cannot be resolved, or has no form in JSON.
        """
        try:
            _ = self._decoder
        except ConfigurationError as error:
            if not (early and isinstance(error.__cause__, NameError | AttributeError)):
                raise

    def check_pushed(self, name: str) -> None:
        """Check that a parameter exists, and that its argument is pushed.

        Raises:
            ConfigurationError: it does not, or it is filled in by the worker.
        """
        names = [*self._parameters]
        with suppress(ConfigurationError):  # an annotation names what its module defines later
            names = [each for each in names if each not in self.injected]
        if name not in names:
            raise ConfigurationError(
                f"task {self._task!r}: group is the name of a parameter, one of"
                f" {', '.join(names)}, not {name!r}"
            )

    # --- values ---------------------------------------------------------------------------

    def encode(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bytes:
        """Return the arguments of a call as JSON, after a check that a worker reads the same.

        Raises:
            InvalidArguments: they do not fit the signature, or one would arrive with another value
                or type; the text names its path.
        """
        values = self._by_name(args, kwargs)
        try:
            written = msgspec.json.encode(values, enc_hook=encoded)
        except RecursionError:
            raise InvalidArguments(TOO_DEEP, task=self._task) from None
        except (TypeError, ValueError) as error:
            raise InvalidArguments(str(error), task=self._task) from error
        if b"null" in written and (text := not_finite(values)) is not None:
            raise InvalidArguments(text, task=self._task)
        read = self.decode(written)
        for name, value in values.items():
            its = getattr(read, name)
            if name in self._untyped and is_same(value, its, written):
                continue
            if found := difference(value, its):
                raise InvalidArguments(f"${step(name)}{found[0]} {found[1]}", task=self._task)
        return written

    def decode(self, written: bytes | msgspec.Raw) -> Any:
        """Return the arguments, defaults included: a struct with one field for each.

        Raises:
            InvalidArguments: they do not fit the signature. Its text names the first that does not,
                and never shows a value.
        """
        try:
            return self._decoder.decode(written)
        except msgspec.ValidationError as error:
            reason = str(error).replace("Object contains unknown field", "There is no argument")
            reason = reason.replace("Object missing required field", "Missing the argument")
            # Without a path, it is a parameter of the function.
            unknown = reason.startswith("There is no argument") and " - at `$" not in reason
            kind = UnknownArgument if unknown else InvalidArguments
            raise kind(reason, task=self._task) from None
        except (msgspec.DecodeError, TypeError) as error:  # TypeError: a list in a set
            raise InvalidArguments(str(error), task=self._task) from None
        except RecursionError:
            raise InvalidArguments(TOO_DEEP, task=self._task) from None

    @cached_property
    def by_position(self) -> bool:
        """Whether the values of a struct, in its order, are all that the function takes."""
        return not (self._batch or self.injected) and len(self.positions) == len(self._types)

    def joined(self, each: Sequence[Any]) -> dict[str, Any]:
        """Return the arguments of the function, by name: those of a message, or of a batch."""
        if not self._batch:
            return msgspec.structs.asdict(each[0])
        return {name: [getattr(struct, name) for struct in each] for name in self._types}

    def _by_name(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        if len(args) > len(self.positions):
            raise InvalidArguments(
                f"the task takes {len(self.positions)} arguments by position, not {len(args)}",
                task=self._task,
            )
        values = dict(zip(self.positions, args, strict=False))
        if kwargs:
            if twice := values.keys() & kwargs.keys():
                raise InvalidArguments(f"{min(twice)!r} is given twice", task=self._task)
            values.update(kwargs)
        if self.injected and (filled := self.injected & values.keys()):
            raise InvalidArguments(
                f"the worker fills in {min(filled)!r}: do not push it",
                task=self._task,
            )
        return values

    # --- schema ---------------------------------------------------------------------------

    def schema(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the JSON Schema of the arguments, and the definitions that it refers to."""
        self.check()
        (_,), definitions = msgspec.json.schema_components(
            [self._struct], schema_hook=schema_of, ref_template="#/$defs/{name}"
        )
        schema = definitions.pop("Arguments")
        del schema["title"]
        # Models of pydantic bring the definitions that they refer to.
        waiting: list[Any] = [schema, *definitions.values()]
        while waiting:
            node = waiting.pop()
            if isinstance(node, dict):
                brought = node.pop("$defs", {})
                definitions.update(brought)
                waiting += [*brought.values(), *node.values()]
            elif isinstance(node, list):
                waiting += node
        return schema, definitions


def _returns(value: Any) -> Callable[[], Any]:
    return lambda: value


def _item_of(hint: Any) -> Any:
    """Return T of list[T], or None of another type."""
    return typing.get_args(hint)[0] if typing.get_origin(hint) is list else None


def _is_message(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, Message)


def _is_state(hint: Any) -> bool:
    return any(isinstance(mark, _StateMark) for mark in getattr(hint, "__metadata__", ()))


def _parts(kind: Any) -> Iterator[Any]:
    """Yield a type, the types that it is made of, and the metadata of its annotations."""
    yield kind
    for part in (*typing.get_args(kind), *getattr(kind, "__metadata__", ())):
        if typing.get_origin(kind) is not typing.Literal:
            yield from _parts(part)
