"""The mutants of a Lua text: what each changes, and where.

A parser of the Lua that the scripts use says where statements, operands and arguments begin and
end. An operator or a constant is another one, an operand, a statement, a condition or an item of a
list is left out, two arguments are swapped.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

KINDS = ("operator", "constant", "operand", "condition", "statement", "argument", "item", "value")

_TOKEN = re.compile(
    r"(?P<comment>--\[\[.*?\]\]|--[^\n]*|\s+)|(?P<string>'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\""
    r"|\[\[.*?\]\])|(?P<number>0x[0-9a-fA-F]+|\d+(?:\.\d+)?(?:e[+-]?\d+)?)|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<sign>\.\.\.|\.\.|==|~=|<=|>=|[-+*/%^#<>=(){}\[\];:,.])",
    re.DOTALL,
)
#: How tightly binary operators bind: to the left, and to the right.
_BINDS = {
    **dict.fromkeys(("or",), (1, 1)),
    **dict.fromkeys(("and",), (2, 2)),
    **dict.fromkeys(("<", ">", "<=", ">=", "~=", "=="), (3, 3)),
    "..": (5, 4),
    **dict.fromkeys(("+", "-"), (6, 6)),
    **dict.fromkeys(("*", "/", "%"), (7, 7)),
    "^": (10, 9),
}
_UNARY = 8
_LOGICAL = ("==", "~=", "<", "<=", ">", ">=", "and", "or", "not")
_OTHER = {
    "==": "~=",
    "~=": "==",
    "<": "<=",
    "<=": "<",
    ">": ">=",
    ">=": ">",
    "+": "-",
    "-": "+",
    "*": "/",
    "/": "*",
    "%": "*",
    "and": "or",
    "or": "and",
}
_OTHER_TEXT = {
    f"'{one}'": f"'{other}'"
    for pair in (
        *("LPUSH RPUSH", "LPOP RPOP", "LEFT RIGHT", "NX XX", "BEFORE AFTER"),
        *("ZRANGE ZREVRANGE", "HSET HSETNX", "RENAME RENAMENX"),
    )
    for one, other in (pair.split(), reversed(pair.split()))
}
#: Commands with any number of keys, or of fields behind the key.
_OF_KEYS = ("'DEL'", "'UNLINK'", "'EXISTS'")
_OF_FIELDS = ("'HDEL'", "'HMGET'", "'ZREM'")
#: A text that a program compares or stores, and no sentence and no pattern.
_WORD = re.compile(r"'[\w:]+'")
_OPTION = re.compile(r"'[A-Z]+'")


class Change(NamedTuple):
    """One change of a text."""

    kind: str
    start: int
    end: int
    new: str
    function: str  #: in which it is
    block: int  #: of that function: 1 is the first

    def of(self, text: str) -> str:
        return text[: self.start] + self.new + text[self.end :]


class Token(NamedTuple):
    kind: str
    text: str
    start: int
    end: int


def tokens(text: str) -> list[Token]:
    """Return the tokens of a text, without its comments."""
    found = list(_TOKEN.finditer(text))
    assert sum(len(each[0]) for each in found) == len(text), "a character that is no Lua"
    return [
        Token(each.lastgroup or "", each[0], *each.span())
        for each in found
        if each.lastgroup != "comment"
    ]


def changes(text: str) -> list[Change]:
    """Return all mutants of a text."""
    return _read(text).found


def blocks(text: str) -> dict[str, tuple[int, int]]:
    """Return where the blocks of a text are, inner ones first."""
    return _read(text).blocks


def guarded(text: str, limit: int) -> str:
    """Return a text whose loops end in an error after that many rounds, all together.

    A mutant may have a loop that does not end, and a server with it would answer nobody.
    """
    guard = (
        f" ARGV[-1] = (ARGV[-1] or 0) + 1 if ARGV[-1] > {limit} then"
        " error('a loop does not end') end "
    )
    return _with(text, dict.fromkeys(_read(text).loops, guard))


def marked(text: str, mark: Callable[[str], str]) -> str:
    """Return a text that logs the mark of each block that a call runs, once.

    A block is named by its function and its number there, such as "take+2".
    """
    return _with(
        text,
        {
            start: f" if not ARGV['{mark(block)}'] then ARGV['{mark(block)}'] = 1"
            f" redis.log(redis.LOG_WARNING, '{mark(block)}') end "
            for block, (start, _) in blocks(text).items()
        },
    )


def _with(text: str, inserted: dict[int, str]) -> str:
    for at in sorted(inserted, reverse=True):
        text = text[:at] + inserted[at] + text[at:]
    return text


def _read(text: str) -> _Parser:
    parser = _Parser(text)
    parser.block()
    assert parser.at == len(parser.tokens), parser.text_from(parser.at)
    return parser


class _Parser:
    """Reads statements and expressions, and notes the changes on the way."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = tokens(text)
        self.at = 0
        self.found: list[Change] = []
        self.loops: list[int] = []  #: where the bodies of loops begin
        self.blocks: dict[str, tuple[int, int]] = {}  #: where each is, in the order of their ends
        self.function = "the script"
        self._block = 0  # of the function
        self._count: Counter[str] = Counter()  # the blocks of each function
        self._quiet = 0  # within what is not mutated

    def text_from(self, at: int) -> str:
        return self.text[self.tokens[at].start :][:80] if at < len(self.tokens) else "the end"

    def _change(self, kind: str, start: int, end: int, new: str) -> None:
        """Note a change of the tokens from ``start`` to before ``end``."""
        if not self._quiet and start < end:
            span = self.tokens[start].start, self.tokens[end - 1].end
            self.found.append(Change(kind, *span, new, self.function, self._block))

    def _span(self, start: int, end: int) -> str:
        return self.text[self.tokens[start].start : self.tokens[end - 1].end]

    def _peek(self) -> str:
        return self.tokens[self.at].text if self.at < len(self.tokens) else ""

    def _take(self, *wanted: str) -> str:
        found = self._peek()
        assert not wanted or found in wanted, f"{wanted} expected: {self.text_from(self.at)}"
        self.at += 1
        return found

    def _skip(self, wanted: str) -> bool:
        found = self._peek() == wanted
        self.at += found
        return found

    # Statements.

    def block(self) -> None:
        """Read statements up to the end of their block."""
        outer = self._block
        self._count[self.function] += 1
        self._block = self._count[self.function]
        begin = self.at
        while self._peek() not in ("end", "else", "elseif", "until", ""):
            start = self.at
            self._statement()
            self._skip(";")
            first = self.tokens[start].text
            last = self._peek() in ("end", "else", "elseif", "until", "")
            if first == "return" and last and self.function == "the script":
                continue  # what the script returns
            if first == "break" or first not in _OPENS:
                self._change("statement", start, self.at, "")
        if begin < self.at:
            span = self.tokens[begin].start, self.tokens[self.at - 1].end
            self.blocks[f"{self.function}+{self._block}"] = span
        self._block = outer

    def _body(self, end: str = "end") -> None:
        self.loops.append(self.tokens[self.at - 1].end)
        self.block()
        self._take(end)

    def _statement(self) -> None:
        match self._peek():
            case "if":
                self._if()
            case "while":
                self._take()
                self._condition(("false",))
                self._take("do")
                self._body()
            case "for":
                self._take()
                while self._take() not in ("=", "in"):
                    pass
                self._expressions()
                self._take("do")
                self._body()
            case "repeat":
                self._take()
                self._body("until")
                self._condition(("true",))
            case "do":
                self._take()
                self.block()
                self._take("end")
            case "function" | "local":
                self._local()
            case "return":
                self._take()
                if self._peek() not in ("end", "else", "elseif", "until", "", ";"):
                    start = self.at
                    self._expressions()
                    if any(each.text in _LOGICAL for each in self.tokens[start : self.at]):
                        self._values(start, ("true", "false"))
            case "break":
                self._take()
            case _:
                self._expressions()
                if self._skip("="):
                    self._given()

    def _if(self) -> None:
        while self._take("if", "elseif", "else", "end") != "end":
            if self.tokens[self.at - 1].text != "else":
                self._condition(("true", "false"))
                self._take("then")
            self.block()

    def _condition(self, others: tuple[str, ...]) -> None:
        start = self.at
        self._expression()
        self._values(start, others)

    def _values(self, start: int, others: tuple[str, ...]) -> None:
        for other in others:
            if self._span(start, self.at) not in ("true", "false"):
                self._change("condition", start, self.at, other)

    def _local(self) -> None:
        self._skip("local")
        if self._skip("function"):
            name = self._take()
            while self._skip(".") or self._skip(":"):
                name += "." + self._take()
            self._function(name)
            return
        while self._take() and self._skip(","):
            pass
        # Every call of a script would fail without a key of its own.
        binds = re.match(r"= *KEYS\[", self.text_from(self.at))
        if self._skip("="):
            self._quiet += bool(binds)
            self._given()
            self._quiet -= bool(binds)

    def _function(self, name: str) -> None:
        outer, self.function = self.function, name or self.function
        self._take("(")
        while self._take() != ")":
            pass
        self.block()
        self._take("end")
        self.function = outer

    def _given(self) -> None:
        """Read what is assigned."""
        for start, end in self._expressions():
            if self.tokens[start].text not in ("{", "function", "nil", "true", "false"):
                self._change("value", start, end, "nil")

    # Expressions.

    def _expressions(self) -> list[tuple[int, int]]:
        """Read expressions between commas, and return where each begins and ends."""
        spans = []
        while True:
            start = self.at
            self._expression()
            spans.append((start, self.at))
            if not self._skip(","):
                return spans

    def _expression(self, least: int = 0) -> None:
        start = self.at
        if self._peek() in ("not", "-", "#"):
            sign = self._take()
            self._expression(_UNARY)
            if sign == "#":
                self._change("constant", start, self.at, f"({self._span(start, self.at)} - 1)")
            else:
                self._change("operator", start, start + 1, "")
        else:
            self._simple()
        while (sign := self._peek()) in _BINDS and _BINDS[sign][0] > least:
            at = self.at
            self._take()
            self._expression(_BINDS[sign][1])
            if sign in _OTHER:
                self._change("operator", at, at + 1, _OTHER[sign])
            if sign in ("and", "or", "+", "-", "*", ".."):
                self._change("operand", start, self.at, self._span(at + 1, self.at))
                self._change("operand", start, self.at, self._span(start, at))

    def _simple(self) -> None:
        token = self.tokens[self.at]
        if token.kind == "number":
            self._take()
            for other in _other_numbers(token.text):
                self._change("constant", self.at - 1, self.at, other)
        elif token.kind == "string":
            self._take()
            if other := _OTHER_TEXT.get(token.text) or "'?'" * bool(_WORD.fullmatch(token.text)):
                self._change("constant", self.at - 1, self.at, other)
        elif token.text in ("true", "false"):
            self._take()
            other = "false" if token.text == "true" else "true"
            self._change("constant", self.at - 1, self.at, other)
        elif token.text in ("nil", "..."):
            self._take()
        elif token.text == "{":
            self._table()
        elif token.text == "function":
            self._take()
            self._function("")
        else:
            self._prefixed()

    def _table(self) -> None:
        self._take("{")
        items = []
        while not self._skip("}"):
            start = self.at
            if self._skip("["):
                self._expression()
                self._take("]")
                self._take("=")
            elif self.tokens[self.at + 1].text == "=" and self.tokens[self.at].kind == "name":
                self.at += 2
            self._expression()
            items.append((start, self.at))
            if not self._skip(","):
                self._skip(";")
        self._left_out(items)

    def _left_out(self, items: list[tuple[int, int]]) -> None:
        """Note the changes that leave out one of several items."""
        for at in range(len(items) if len(items) > 1 else 0):
            if at + 1 < len(items):
                self._change("item", items[at][0], items[at + 1][0], "")
            else:
                self._change("item", items[at - 1][1], items[at][1], "")

    def _prefixed(self) -> None:
        """Read a name or a parenthesis, and what is indexed or called behind it."""
        start = self.at
        if self._take() == "(":
            self._expression()
            self._take(")")
        while self._peek() in (".", "[", "(", ":"):
            sign = self._take()
            if sign in (".", ":"):
                if self._take() == "pcall":
                    self._change("operator", self.at - 1, self.at, "call")
            elif sign == "[":
                self._expression()
                self._take("]")
            else:
                self._call(self._span(start, self.at - 1))

    def _call(self, function: str) -> None:
        if self._skip(")"):
            return
        # Another command or another text of an error is no small mistake.
        command = ""
        worded = function in ("redis.call", "redis.pcall", "redis.error_reply", "error")
        follows = self.tokens[self.at + 1].text
        if worded and self.tokens[self.at].kind == "string" and follows in (",", ")", ".."):
            command = self.tokens[self.at].text
            if command in _OTHER_TEXT:
                self._change("constant", self.at, self.at + 1, _OTHER_TEXT[command])
            self._take()
            if not self._skip(","):
                if self._peek() == "..":  # the rest of the text of an error
                    self._quiet += 1
                    self._take()
                    self._expressions()
                    self._quiet -= 1
                self._take(")")
                return
        spans = self._expressions()
        self._take(")")
        if not worded or command in _OF_KEYS:
            self._left_out(spans)
        elif command in _OF_FIELDS:
            self._left_out(spans[1:])
        for start, end in spans[1:] if worded else ():
            if self.tokens[start].kind not in ("string", "number"):
                self._change("value", start, end, "0")
            if _OPTION.fullmatch(self._span(start, end)):
                self._change("argument", start - 1, end, "")
        for (one, comma), (other, end) in itertools.pairwise(spans):
            if self._span(one, comma) != self._span(other, end):
                swapped = f"{self._span(other, end)}, {self._span(one, comma)}"
                self._change("argument", one, end, swapped)


#: What begins a statement that is not left out as a whole.
_OPENS = ("if", "while", "for", "repeat", "do", "function", "local")


def _other_numbers(text: str) -> Iterator[str]:
    """Yield numbers beside a small one, and one far away from a large one."""
    value = float(text) if not text.startswith("0x") else int(text, 16)
    if value >= 100:
        yield f"{value * 10:.15g}"
        yield f"{value // 10:.15g}"
    else:
        yield f"{value + 1:.15g}"
        if value > 0:
            yield f"{value - 1:.15g}"
