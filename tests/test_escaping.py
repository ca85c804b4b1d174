"""Text of other people is shown, and a terminal does not obey it."""

import json

import pytest

from ackq.escaping import json_line, printable

#: What a terminal obeys, and what makes a text read as another.
HOSTILE = [
    "\x1b]52;c;cm0gLXJm\x07",  # OSC 52: sets the clipboard
    "\x1b[2J\x1b[H",  # clears the screen
    "\x9b31m",  # CSI as one C1 character
    "\x9d0;title\x9c",  # OSC as one
    "a\nb\rc\td\x00\x7f",
    "\u202egpj.exe",  # right-to-left override
    "\u2066a\u2069\u200f\u061c",
    "a\u2028b\u2029c\u0085d",  # line ends to some
    "\u200b\ufeff\u00ad",  # no width
    "\U000e0041",  # a tag character, which needs two UTF-16 units
    "\ue000\udcff",  # private, and half a pair
]


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_what_a_terminal_obeys_is_shown_instead(text: str) -> None:
    shown = printable(text)
    assert shown.isprintable()
    assert shown.encode().decode("unicode_escape") == text


@pytest.mark.parametrize("text", [each for each in HOSTILE if "\udcff" not in each], ids=ascii)
def test_json_is_shown_as_well_and_says_the_same(text: str) -> None:
    line = json_line({text: [text]}).decode()
    assert line.isprintable()
    assert json.loads(line) == {text: [text]}


@pytest.mark.parametrize("text", ["Grüße, 世界 \N{PARTY POPPER}", "a\u00a0b\u3000c", '"\\', ""])
def test_text_stays_as_it_is(text: str) -> None:
    assert printable(text) == text
    assert json_line(text) == json.dumps(text, ensure_ascii=False).encode()


def test_bytes_that_are_no_text_are_shown_one_by_one() -> None:
    assert printable(b"a\x9b\xff\xc3\xa9\n") == "a\\x9b\\xffé\\n"
    assert printable(None) == "-"
    assert printable(7) == "7"
