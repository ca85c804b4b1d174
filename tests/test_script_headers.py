"""Every script, of every product, says in its header what it takes, returns and costs."""

import re

from ackq import scripts
from tests.queue.scripts.headers import comment, parse, read


def test_a_header_says_what_returns_why_it_is_atomic_and_what_it_costs() -> None:
    for script in scripts.names():
        text = read(scripts.directory(), script)
        assert text.startswith((f"-- {script}: ", f"-- {script.rpartition('/')[2]}: ")), script
        for part in ("\n-- KEYS[1", "\n-- Returns ", "\n-- Atomic", "\n-- Cost: O("):
            assert part in comment(text), script
        header = parse(text)
        for slots in (header.keys, header.arguments):
            assert [slot.number for slot in slots] == list(range(1, len(slots) + 1)), script
        code = re.sub(r"--.*", "", text)
        assert code.count("redis.call('TIME')") <= 1, f"{script}: a call is one moment"
        assert "#!" not in text, script
        for names in re.findall(r"^local ([\w, ]+) = KEYS\[", code, re.MULTILINE):
            for name in names.split(", "):
                assert not re.search(rf"\b{name} *\.\.", code), (
                    f"{script}: a key is made of another"
                )
