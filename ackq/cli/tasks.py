"""``ackq tasks``: the tasks of a module, and the form of their messages."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import click

from ackq.cli import Group
from ackq.cli.options import examples, json_option
from ackq.cli.output import print_json
from ackq.cli.tables import print_table
from ackq.errors import ConfigurationError

if TYPE_CHECKING:
    from ackq.tasks.definition import Definition

module_argument = click.argument("tasks", metavar="MODULE:TASKS")


@click.group(cls=Group)
def tasks() -> None:
    """Show the tasks of a module, and the JSON Schema of their messages.

    Nothing is sent. MODULE:TASKS is an object of ackq.tasks, such as images:tasks.
    """


@tasks.command("list", epilog=examples("ackq tasks list images:tasks"))
@module_argument
@json_option
def list_(tasks: str, as_json: bool) -> None:
    """List the tasks with their queues, arguments and limits."""
    definitions = _definitions(tasks)
    if as_json:
        for each in definitions:
            print_json(_fields(each))
        return
    rows = [
        ["" if field is None else field for field in _fields(each).values()] for each in definitions
    ]
    print_table(("task", "queue", "arguments", "max receives", "time limit"), rows)


@tasks.command(
    epilog=examples(
        "ackq tasks schema images:tasks",
        "ackq tasks schema images:tasks images.resize --cloudevent",
    )
)
@module_argument
@click.argument("name", required=False)
@click.option("--cloudevent", is_flag=True, help="Print the schema of CloudEvents.")
def schema(tasks: str, name: str | None, cloudevent: bool) -> None:
    """Print the JSON Schema of the messages of one task, or of each."""
    from ackq.tasks.schema import message_schema

    by_name = {each.name: each for each in _definitions(tasks)}
    if name is None:
        schemas = {each: message_schema(by_name[each], cloudevent=cloudevent) for each in by_name}
        print_json(schemas)
    elif name in by_name:
        print_json(message_schema(by_name[name], cloudevent=cloudevent))
    else:
        raise ConfigurationError(f"{tasks} has no task {name!r}, only {', '.join(by_name)}")


def _definitions(path: str) -> tuple[Definition, ...]:
    # The worker takes a moment to load.
    from ackq.process.plan import HasTasks, import_object

    value = import_object(path)
    if not isinstance(value, HasTasks):
        raise ConfigurationError(f"{path} is not an object of ackq.tasks.Tasks or AsyncTasks")
    definitions: tuple[Definition, ...] = value.definitions
    return definitions


def _fields(definition: Definition) -> dict[str, Any]:
    return {
        "task": definition.name,
        "queue": definition.queue,
        "arguments": str(inspect.signature(definition.function)),
        "max_receives": definition.terms.max_receives,
        "time_limit": definition.terms.time_limit,
    }
