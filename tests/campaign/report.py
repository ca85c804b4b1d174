"""``python -m tests.campaign.report``: the results of stored runs, as a part of docs/campaign.md.

``--collect FOLDER`` first stores the runs of a folder that `python -m tests.campaign` has written.
"""

import argparse
import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .scenarios import SCENARIOS

DOCS = Path(__file__).parents[2] / "docs"
RESULTS = DOCS / "_campaign"
SOAK = RESULTS / "soak"
SIMULATION = RESULTS / "simulation"
#: The faults that were planted for each version of the checker, before runs included their own.
CHECKERS = RESULTS / "checkers"
#: What a soak reads, with its unit.
UNITS = {
    "memory of the processes": "MB",
    "descriptors": "",
    "threads": "",
    "memory of the server": "MB",
    "connections": "",
    "keys": "",
}
PAGE = DOCS / "campaign.md"
#: What the page has before and after its verdict, at the top, and its tables.
VERDICT = ("<!-- verdict -->\n", "<!-- end of the verdict -->")
TABLES = ("<!-- results -->\n", "<!-- end of the results -->")
#: What the campaign of a release is to reach, and the faults that count.
AIMS: dict[str, tuple[int, tuple[str, ...]]] = {
    "processes killed": (10_000, ("kill a consumer", "kill a producer", "kill a worker process")),
    "servers killed": (1_000, ("kill the server", "load slowly")),
    "power cuts": (200, ("cut the power",)),
    "failovers": (
        200,
        (
            "fail over: kill",
            "fail over: freeze",
            "fail over: lag",
            "fail over: split",
            "fail over in the cluster",
            "partition",
        ),
    ),
}
MESSAGES = 10_000_000
#: 95 % sure: with none in n, fewer than one in n / 3.
RULE_OF_THREE = 3

#: The products, with the beginning of their workloads' names.
PRODUCTS = {
    "list queue": "queue",
    "drop-in": "drop-in",
    "worker": "worker",
    "delay queue": "delay queue",
    "topic": "topic",
    "RSMQ": "RSMQ",
    "sharded queue": "sharded queue",
    "Spark": "Spark",
}

#: What a file of results says about all of its runs.
ENVIRONMENT = ("commit", "scripts", "ackq", "redis-py", "python", "system")

#: What the last column of the table of commits says.
PLANTED = """\
"In the runs": each of these runs includes planted faults, and is not valid if the checker misses
one. "Kinds": all planted faults that there are, once beside these runs. Earlier runs included none.
Their checker was put to the test separately, with all planted faults of that time: just before the
runs, or with the same version of the checker at the commit that is named.
"""

Run = dict[str, Any]


def collect(folder: Path) -> Path:
    """Store the finished runs of a folder, all of one commit, in one file, and return it."""
    runs, environments = [], []
    for path in sorted(folder.glob("*/verdict.json")):
        settings = json.loads((path.parent / "settings.json").read_text())
        if settings["scenario"] not in SCENARIOS:
            continue  # sabotage
        environments.append({key: settings[key] for key in ENVIRONMENT})
        verdict = json.loads(path.read_text())
        told = {key: settings[key] for key in ("scenario", "seed", "seconds", "server")}
        runs.append({**told, **{key: each for key, each in verdict.items() if each}})
    environment = environments[0]
    assert all(each == environment for each in environments), "runs of more than one commit"
    sabotage = folder / "sabotage.json"
    planted = json.loads(sabotage.read_text()) if sabotage.exists() else None
    head = json.dumps({"environment": environment, "sabotage": planted})[1:-1]
    lines = ",\n".join(json.dumps(run) for run in runs)
    RESULTS.mkdir(exist_ok=True)
    stored = RESULTS / f"{environment['commit']}-{runs[0]['seed']}.json"
    stored.write_text(f'{{{head}, "runs": [\n{lines}\n]}}\n')
    return stored


def page(text: str, files: Iterable[Path]) -> str:
    """Return the page with the results of the stored files."""
    stored = [json.loads(path.read_text()) for path in sorted(files)]
    return _filled(_filled(text, VERDICT, _verdict(stored)), TABLES, _results(stored))


def _filled(text: str, marks: tuple[str, str], content: str) -> str:
    begin, end = marks
    before, _, rest = text.partition(begin)
    return f"{before}{begin}\n{content}\n{end}{rest.partition(end)[2]}"


def _verdict(stored: list[dict[str, Any]]) -> str:
    runs = _valid(stored)
    safe = [run for run in runs if not SCENARIOS[run["scenario"]].loses]
    invalid = sum(len(each["runs"]) for each in stored) - len(runs)
    return f"{_headline(runs, safe, invalid)}\n{_aims(runs)}"


def _results(stored: list[dict[str, Any]]) -> str:
    runs = _valid(stored)
    parts = [
        _tables([run for run in runs if not SCENARIOS[run["scenario"]].loses]),
        _losses([run for run in runs if SCENARIOS[run["scenario"]].loses]),
        _faults(runs),
        _environments(stored),
        _simulation(),
        _soak(),
    ]
    return "\n".join(filter(None, parts))


def _valid(stored: list[dict[str, Any]]) -> list[Run]:
    return [run for each in stored for run in each["runs"] if _is_valid(run)]


def _is_valid(run: Run) -> bool:
    """Whether the checker found all faults that were planted beside the run."""
    return not run.get("sabotage", {}).get("missed")


def _headline(runs: list[Run], safe: list[Run], invalid: int) -> str:
    pushed = _sum(safe, "pushed")
    broken = sum(sum(run.get("violations", {}).values()) for run in runs)
    lost = sum(run.get("violations", {}).get("lost", 0) for run in safe)
    bound = f"1 in {pushed // RULE_OF_THREE:,}" if pushed else "nothing"
    return (
        f"**{len(runs)} runs, {_sum(runs, 'pushed'):,} answered pushes, {broken} broken rules.**"
        f" Where nothing may be lost, {lost} of {pushed:,} messages were lost. That is not a proof"
        f" of never: none lost means, with 95 % confidence, fewer than {bound} under these faults"
        " (the rule of three).\n"
        + (
            "\nRuns that do not count, since the checker missed a planted fault there:"
            f" {invalid}.\n"
            if invalid
            else ""
        )
    )


def _aims(runs: list[Run]) -> str:
    faults = _struck(runs)
    rows = [("messages", _sum(runs, "pushed"), MESSAGES)]
    rows += [
        (name, sum(faults[kind] for kind in kinds), aim) for name, (aim, kinds) in AIMS.items()
    ]
    lines = [f"| {name} | {done:,} | {aim:,} |" for name, done, aim in rows]
    return _lines("| | so far | aim for a release |", "|---|---:|---:|", lines)


def _of(runs: list[Run], product: str) -> list[Run]:
    begin = PRODUCTS[product]
    return [run for run in runs if SCENARIOS[run["scenario"]].workload.startswith(begin)]


def _tables(runs: list[Run]) -> str:
    parts = ["### Nothing may be lost\n"]
    for product in PRODUCTS:
        if found := _of(runs, product):
            parts.append(f"**{product[0].upper()}{product[1:]}**\n\n{_table(found)}")
    return "\n".join(parts)


def _table(runs: list[Run]) -> str:
    lines = []
    for name, those in _by_scenario(runs).items():
        broken = Counter[str]()
        faults, pushed = sum(_struck(those).values()), _sum(those, "pushed")
        took = sum(run["took"] for run in those)
        for run in those:
            broken.update(run.get("violations", {}))
        # Workers ack by themselves, so their histories have few acks that could be a second one.
        twice = f"{broken['acked twice']} of {_sum(those, 'acked'):,}"
        lines.append(
            f"| {name} | {len(those)} | {faults:,} | {faults / took:.1f} |"
            f" {pushed:,} | {pushed / took:,.0f} | {_sum(those, 'redelivered'):,} |"
            f" {_sum(those, 'refused'):,} | {broken['lost']} | {_bound(broken['lost'], pushed)} |"
            f" {broken['phantom']} | {twice} | {broken['early']} |"
            f" {sum(broken.values())} |"
        )
    head = (
        "| scenario | runs | faults | a second | pushed | a second | delivered again |"
        " late settles refused | lost | at most, with 95 % confidence | phantom |"
        " acked twice, of answered acks | early | all broken rules |"
    )
    return _lines(head, "|---|" + "---:|" * 13, lines)


def _bound(lost: int, pushed: int) -> str:
    return f"1 in {max(1, pushed // RULE_OF_THREE):,}" if not lost else "see the runs"


def _losses(runs: list[Run]) -> str:
    lines = []
    for name, those in _by_scenario(runs).items():
        window = max(run.get("window", 0.0) for run in those)
        broken = sum(sum(run.get("violations", {}).values()) for run in those)
        lines.append(
            f"| {name} | {sum(_struck(those).values()):,} | {_sum(those, 'pushed'):,} |"
            f" {_sum(those, 'lost_as_expected'):,} | {window:.1f} s | {SCENARIOS[name].loses} |"
            f" {broken} |"
        )
    head = (
        "| scenario | faults | pushed | lost | longest before the fault | documented |"
        " broken rules |"
    )
    return "### Losses that are documented\n\n" + _lines(
        head, "|---|---:|---:|---:|---:|---|---:|", lines
    )


def _faults(runs: list[Run]) -> str:
    struck = [_struck(_of(runs, product)) for product in PRODUCTS]
    lines = [
        "| " + " | ".join([kind, *(f"{each[kind]:,}" for each in struck), f"{times:,}"]) + " |"
        for kind, times in _struck(runs).most_common()
    ]
    head = "| fault | " + " | ".join([*PRODUCTS, "all"]) + " |"
    return "### Faults\n\n" + _lines(head, "|---|" + "---:|" * (len(PRODUCTS) + 1), lines)


def _environments(stored: list[dict[str, Any]]) -> str:
    lines = []
    for each in stored:
        about = each["environment"]
        servers = ", ".join(sorted({run["server"] for run in each["runs"]}))
        lines.append(
            f"| {about['commit']} | {about['scripts']} | {about['redis-py']} | {about['python']} |"
            f" {servers} | {_found(each)} |"
        )
    head = "| commit | scripts | redis-py | Python | servers | planted faults found |"
    table = _lines(head, "|---|---|---|---|---|---|", [*dict.fromkeys(lines)])
    return f"### What ran\n\n{table}\n{PLANTED}"


def _found(stored: dict[str, Any]) -> str:
    """Return how many planted faults the checker found, in these runs or at which commit."""
    beside = [run["sabotage"] for run in stored["runs"] if "sabotage" in run]
    parts = []
    if beside:
        planted = sum(len(each["planted"]) for each in beside)
        missed = sum(len(each["missed"]) for each in beside)
        parts.append(f"{planted - missed} of {planted} in the runs")
    if stored["sabotage"]:
        parts.append(
            f"{_share(stored['sabotage'])} kinds" if beside else _share(stored["sabotage"])
        )
    if not parts:
        commit = stored["environment"]["commit"]
        passes = [json.loads(path.read_text()) for path in sorted(CHECKERS.glob("*.json"))]
        parts = [
            f"{_share(each)}, at {each['commit']}" for each in passes if commit in each["runs"]
        ]
    return ", ".join(parts)


def _share(planted: dict[str, Any]) -> str:
    return f"{planted['planted'] - len(planted['missed'])} of {planted['planted']}"


def _simulation() -> str:
    """Return what the stored simulation showed, and how many planted faults it found."""
    paths = SIMULATION / "histories.json", SIMULATION / "planted.json"
    if not all(path.exists() for path in paths):
        return ""
    found, planted = (json.loads(path.read_text()) for path in paths)
    columns = ("histories", "faults", "messages", "redelivered", "broken")
    lines = [
        "| " + " | ".join([name, *(f"{counts.get(column, 0):,}" for column in columns)]) + " |"
        for name, counts in sorted(found["products"].items())
    ]
    total = sum(counts["histories"] for counts in found["products"].values())
    missed = len(planted["missed"])
    return (
        "### Simulation\n\n"
        f"{total:,} histories at commit {found['commit']}, from seed {found['seed']} on, in"
        f" {found['processor'] / 60:.0f} minutes of one processor. At commit {planted['commit']},"
        f" {planted['planted'] - missed} of {planted['planted']} planted faults were found.\n\n"
        + _lines(
            "| product | histories | faults | messages | delivered again | broken rules |",
            "|---|---:|---:|---:|---:|---:|",
            lines,
        )
    )


def _soak() -> str:
    """Return the figures at the start and at the end of the stored soak, and its picture."""
    path = SOAK / "soak.json"
    if not path.exists():
        return ""
    soak = json.loads(path.read_text())
    about, verdict, samples = soak["about"], soak["verdict"], soak["samples"]
    faults = ", ".join(f"{kind}: {times:,}" for kind, times in sorted(verdict["faults"].items()))
    lines = [
        f"| {name} | {' '.join([f'{sum(samples[0][name]):,.0f}', unit]).rstrip()} |"
        f" {' '.join([f'{sum(samples[-1][name]):,.0f}', unit]).rstrip()} |"
        for name, unit in UNITS.items()
    ]
    return (
        "### Soak\n\n"
        f"A producer, a consumer and a worker ran for {about['seconds'] / 60:.0f} minutes at commit"
        f" {about['commit']} ({about['server']}), beside others that were killed ({faults})."
        f" {verdict['pushed']:,} messages, {sum(verdict['violations'].values())} broken rules.\n\n"
        + _lines("| | at the start | at the end |", "|---|---:|---:|", lines)
        + "\n![What was read over the time](_campaign/soak/soak.svg)\n"
    )


def _by_scenario(runs: list[Run]) -> dict[str, list[Run]]:
    found: defaultdict[str, list[Run]] = defaultdict(list)
    for run in runs:
        found[run["scenario"]].append(run)
    return {name: found[name] for name in SCENARIOS if name in found}


def _struck(runs: list[Run]) -> Counter[str]:
    faults = Counter[str]()
    for run in runs:
        faults.update(run.get("faults", {}))
    return faults


def _sum(runs: list[Run], key: str) -> int:
    return sum(run.get(key, 0) for run in runs)


def _lines(head: str, rule: str, lines: list[str]) -> str:
    return "\n".join([head, rule, *lines]) + "\n"


def main() -> None:
    """Collect if asked to, and write the page."""
    parser = argparse.ArgumentParser("python -m tests.campaign.report", description=__doc__)
    parser.add_argument("--collect", type=Path, metavar="FOLDER")
    options = parser.parse_args()
    if options.collect:
        print(collect(options.collect))
    PAGE.write_text(page(PAGE.read_text(), RESULTS.glob("*.json")))


if __name__ == "__main__":
    main()
