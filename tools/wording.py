"""Find phrases that read as if translated, and say what to write instead.

``make lint`` runs this over all texts that git knows. It finds only what a pattern can find: read
aloud what you write.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
SUFFIXES = {".md", ".py", ".lua", ".txt", ".html", ".js", ".toml", ".yaml", ".yml", ".sh"}
#: Records of earlier runs, and this list.
LEFT_OUT = ("docs/_campaign/", "docs/_mutation/", "tools/wording.py")
#: Patterns, and what to write instead. Case matters only where the pattern says so.
PHRASES = (
    (r"\b(?:for|by|of|to|from|with|than) who\b(?! in\b)", "anyone who, a consumer that"),
    (r"\b(?:is|are|was|were|be|been) told\b", "is reported, is logged, is documented in, you see"),
    (
        r"\b(?:of|to|for|in|on|with) the own\b|\bthe own (?:ones|shards)\b",
        "its own, this consumer's",
    ),
    (r"\ball own\b", "all of its own"),
    (r"\bthere no more\b|\bdoes so no more\b", "no longer exists, no longer does"),
    (r"\banew\b", "again; to begin anew is to start over or restart"),
    (
        r"\b(?:in|to|of|for|by|after|with|has|have|reads?) so (?:many|much)\b",
        "the number, or that many",
    ),
    (r"\bof such\b(?! \w)|\bbusy with such\b", "name the thing"),
    (r"\bsome times in a row\b", "several times in a row"),
    (r"\bas far as [a-z ]+ tells?\b", "shows that"),
    (r"\bis not restarting\b", "is not restarted"),
    (r"\bwhat (?:came back|waits in)\b", "redelivered messages, ready messages"),
    (r"\bless than as many\b", "for less than one call each would cost"),
    (r"\bhow far (?:it|(?:a|the|its) [a-z]+) is\b(?! from)", "its progress"),
    (r"\bfor so long\b(?! that)", "for this long"),
    (r"\bas otherwise\b", "as usual"),
    (r"\bof which there are (?:none|still)\b", "put the noun first"),
    (r"\bnot (?:\w+ ){1,4}any more\b", "no longer"),
    (r"\bnobody else who\b", "no other consumer"),
    (r"\bin the moment of\b", "at the moment of"),
    (
        r"\bWhat the \w+ \w+s, the \w+ \w+s\b",
        "normal order: the push raises whatever the task raises",
    ),
    (r"\bSaid before\b", "say it in normal order"),
    (r"\bmay be [a-z]+ or not\b", "may or may not be stored, …"),
    (r"\brelease before this one\b|\bof the release before\b", "the previous release"),
    (r"\bin the place of\b", "instead of"),
    (r"\bearlier releases?\b", "name the format or the version"),
    (r"\bof before\b", "earlier, former"),
    (r"\b(?:for|by) somebody else\b", "others, another thread or process"),
    (r"\bmessages? in work\b", "the message being worked on"),
    (r"\bruns already\b", "is already running"),
    (r"\bis given one\b", "name the thing and who does it"),
    (r"\*Rejected:\* to \b", "the gerund: moving, sending"),
    (r"\b(?:is|are) no (?:results|errors|part of|text|bytes)\b", "is not, are not"),
    (
        r"(?:#:? |-- |\"\"\")(?:Of|(?:The same|That|Those) of) ",
        "name the thing first: the keys of …",
    ),
    (r"\bare no more\b(?! \w)", "no longer exist"),
    (r"\bfor some time at most\b", "or until a time has passed"),
    (
        r"\b(?:message|row|job|schedule)s? (?:is|are|was|were|be) cancelled\b",
        "canceled (asyncio: cancelled)",
    ),
)


def findings(name: str, text: str) -> list[str]:
    """Return a line for each phrase in a file."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        for pattern, advice in PHRASES:
            if match := re.search(pattern, line):
                found.append(f"{name}:{number}: {match[0]!r}: write {advice}")
    return found


def main() -> int:
    """Print all findings; return 1 if there are any."""
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.splitlines()
    found = [
        line
        for name in listed
        if Path(name).suffix in SUFFIXES and not name.startswith(LEFT_OUT)
        for line in findings(name, (ROOT / name).read_text())
    ]
    print(*found, sep="\n", end="\n" if found else "")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
