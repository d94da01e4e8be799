"""Scalars of a JSON config: strings, multi-line strings, numbers, keywords and unquoted text.

Each function reads one token where the caller found it to begin and says what it means to DeepSpeed's
loader, what strict JSON would hold against it (departures), and what the loader refuses (faults).
Texts have "\\n" line ends only. Time is linear in the length of the token.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ..document import Problem, Scalar, Span
from .json_reader import real_number

MAX_DIGITS = 4300
"""Python refuses to read an integer with more digits, and so does the loader."""

# A keyword or number counts only where one of these ends it; otherwise it begins unquoted text. As the
# loader does, this takes every Unicode space after a keyword, and every Unicode digit in a number.
_LITERAL = re.compile(
    r"(?:(?P<word>true|false|null)[^\S\n]*"
    r"|(?P<number>-?(?:0|[1-9]\d*)(?P<real>(?:\.\d+)?(?:[eE][-+]?\d+)?))[\t ]*)"
    r"(?=[,}\]#\n]|//|/\*|\Z)"
)
KEYWORDS: dict[str, tuple[str, Scalar]] = {
    "true": ("boolean", True),
    "false": ("boolean", False),
    "null": ("null", None),
}
_PYTHON_WORDS = {"True": "true", "False": "false", "None": "null"}
_NAN_WORDS = ("NaN", "Infinity", "-Infinity", "+Infinity", "nan", "inf", "-inf")
_CURLY_QUOTES = "\u201c\u201d\u2018\u2019"
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\", "/": "/", "'": "'"}

# Patterns for faulty and unusual input are compiled where they are first used, to keep start-up short.
_HEX = r"[0-9a-fA-F]{4}"
_FIRST_WORD = r"[^\s,;{}\[\]\"':]+"
_PAIR_AHEAD = r"""\s*(?:[,;]\s*)?(?:"[^"]*"|'[^']*')\s*:|\s*[,;]\s*[\w.$/-]+\s*:(?!//)"""
_BARE_PAIR_AHEAD = r"\s+[\w.$/-]+\s*:(?!//)"
_ENDS_WORD = r"""\s*["',{}\[\]]"""
_TUPLE = r"\([^()]*\)"
_NUMBERLIKE = r"[-+]?0[xXoObB][\da-fA-F]+|[-+.(]*\d[\d_.eE+\-*/()]*"  # and arithmetic
_STRICT_NUMBER = r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?"
_COMMENT_AHEAD = r"\s(?:#|//|/\*)"


class Fault(NamedTuple):
    """Something the loader refuses.

    `fatal` faults escape the loader as other errors than its own syntax error, which matters in one
    place: after a syntax error at the root the loader tries to read the file as a single value.
    """

    span: Span
    message: str
    cure: str
    fatal: bool = False


class Token(NamedTuple):
    """A scalar as read; reading goes on at `next`, which may lie behind the end of the span."""

    kind: str
    value: Scalar
    span: Span
    next: int
    departures: tuple[Problem, ...] = ()
    faults: tuple[Fault, ...] = ()


def shown(text: str, limit: int = 40) -> str:
    """Text from the file, printable, on one line and short enough for a message."""
    flat = " ".join(text[: 4 * limit].split())
    if len(flat) > limit or len(text) > 4 * limit:
        flat = flat[: limit - 3] + "..."
    if flat.isprintable():
        return flat
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in flat)


# Quoted strings


def read_string(text: str, start: int) -> Token:
    """A string in double or single quotes, with its escapes, from its opening quote."""
    return _StringReader(text, start).read()


class _StringReader:
    """The slow and exact way through a quoted string; plain ones never come here."""

    def __init__(self, text: str, start: int) -> None:
        self.text = text
        self.start = start
        self.pos = start + 1
        self.parts: list[str] = []
        self.departures: list[Problem] = []
        self.faults: list[Fault] = []
        self.high_surrogate_end = -1  # where an escaped high surrogate ended, which a low one may join

    def read(self) -> Token:
        text, quote = self.text, self.text[self.start]
        plain = re.compile(r'[^"\\\x00-\x1f]+' if quote == '"' else r"[^'\\\x00-\x1f]+")
        while True:
            run = plain.match(text, self.pos)
            if run:
                self.parts.append(run[0])
                self.pos = run.end()
            char = text[self.pos : self.pos + 1]
            if char == quote:
                self.pos += 1
                break
            if char in ("", "\n"):
                self._unclosed(quote)
                break
            if char == "\\":
                self._escape()
            else:
                self._control_character(char)
        span = Span(self.start, self.pos)
        if quote == "'":
            self.departures.insert(0, _single_quoted(span))
        return Token(
            "string", "".join(self.parts), span, self.pos, tuple(self.departures), tuple(self.faults)
        )

    def _unclosed(self, quote: str) -> None:
        line_end = "the end of the file" if self.pos >= len(self.text) else "the end of its line"
        self.faults.append(
            Fault(
                Span(self.start, self.pos),
                f"the string {shown(self.text[self.start : self.pos])} is not closed before {line_end}",
                f"close the string with {quote}",
            )
        )

    def _control_character(self, char: str) -> None:
        name, escape = ("tab", "\\t") if char == "\t" else ("control character", f"\\u{ord(char):04x}")
        span = Span(self.pos, self.pos + 1)
        self.faults.append(
            Fault(span, f"a raw {name} inside a string", f"write {escape} instead of the {name}")
        )
        self.parts.append(char)
        self.pos += 1

    def _escape(self) -> None:
        char = self.text[self.pos + 1 : self.pos + 2]
        if char == "u":
            self._unicode_escape()
        elif char in _ESCAPES:
            if char == "'":
                self._odd_escape(2)
            self.parts.append(_ESCAPES[char])
            self.pos += 2
        elif char in ("", "\n"):
            self.parts.append("\\")
            self.pos += 1  # the unclosed string is reported next
        else:
            self._bad_escape(2)

    def _unicode_escape(self) -> None:
        digits = self.text[self.pos + 2 : self.pos + 6]
        if not re.fullmatch(_HEX, digits):
            # The loader hands any four characters to int(), which takes signs, spaces and underscores.
            code = _lenient_hex(digits)
            if code is None or code < 0:
                self._bad_escape(2, fatal=code is not None)
                return
            self._odd_escape(6)
        else:
            code = int(digits, 16)
        if 0xDC00 <= code <= 0xDFFF and self.high_surrogate_end == self.pos:
            high = ord(self.parts.pop())
            self.parts.append(chr(0x10000 + ((high - 0xD800) << 10) + (code - 0xDC00)))
        else:
            self.parts.append(chr(code))
            if 0xD800 <= code <= 0xDBFF:
                self.high_surrogate_end = self.pos + 6
        self.pos += 6

    def _odd_escape(self, length: int) -> None:
        span = Span(self.pos, self.pos + length)
        written = shown(self.text[span.start : span.end])
        self.departures.append(
            Problem(
                "escape-sequence", span, f"strict JSON has no escape {written}", cure="remove the backslash"
            )
        )

    def _bad_escape(self, length: int, fatal: bool = False) -> None:
        span = Span(self.pos, self.pos + length)
        written = self.text[span.start : span.end]
        self.faults.append(
            Fault(
                span,
                f"strings have no escape {shown(written)}",
                "write \\\\ for a backslash (in paths / works too)",
                fatal,
            )
        )
        self.parts.append(written)
        self.pos += length


def _lenient_hex(digits: str) -> int | None:
    if len(digits) != 4 or digits[1] in "xX":
        return None
    try:
        return int(digits, 16)
    except ValueError:
        return None


def _single_quoted(span: Span) -> Problem:
    cure = "write \" instead of '"
    return Problem("single-quoted-string", span, "strict JSON has no single quotes", cure=cure)


# Multi-line strings


def read_multiline(text: str, start: int, indent: int | None) -> Token:
    """A string between triple quotes; up to `indent` blanks are taken off the start of each line.

    The indent is the column of the opening quotes. It is None where the loader fails to find one.
    """
    begin = _skip_blanks(text, start + 3)
    close = text.find("'''", begin)
    if close < 0:
        end = len(text)
        fault = Fault(
            Span(start, start + 3), "''' is opened but never closed", "close it with '''", fatal=begin == end
        )
        return Token("string", text[begin:], Span(start, end), end, (), (fault,))
    span = Span(start, close + 3)
    departures = (
        Problem(
            "multi-line-string",
            span,
            "strict JSON has no ''' strings",
            cure="write a string in double quotes",
        ),
    )
    faults = () if indent is not None else (_first_line_fault(span),)
    value = _without_indent(text[begin:close], indent or 0)
    return Token("string", value, span, close + 3, departures, faults)


def _skip_blanks(text: str, pos: int, limit: int | None = None) -> int:
    end = len(text) if limit is None else min(len(text), pos + limit)
    while pos < end and text[pos] in " \t":
        pos += 1
    return pos


def _without_indent(body: str, indent: int) -> str:
    first, *others = body.split("\n")
    lines = [line[_skip_blanks(line, 0, indent) :] for line in others]
    if first or not others:
        lines.insert(0, first)  # text right behind the opening quotes; else that line does not count
    value = "\n".join(lines)
    return value[:-1] if value.endswith("\n") else value


def _first_line_fault(span: Span) -> Fault:
    # The loader counts the indent back to the line end before, runs past the start of the text and
    # goes on from its end; only without any line end does it crash.
    return Fault(
        span,
        "the loader crashes on ''' in a file of a single line without a line end",
        "write a string in double quotes",
        fatal=True,
    )


# Numbers, keywords and unquoted text


def read_unquoted(text: str, start: int) -> Token:
    """A number or keyword, else everything up to the end of the line, as the loader reads it."""
    literal = _LITERAL.match(text, start)
    if literal is None:
        return _read_unquoted_text(text, start)
    word, number, real = literal.groups()
    if number is not None:
        return _number(number, real, start, literal.end())
    kind, value = KEYWORDS[word]
    span = Span(start, start + len(word))
    end = literal.end()
    if end == span.end or not text[span.end : end].strip(" \t"):
        return Token(kind, value, span, end)
    odd = Problem(
        "odd-whitespace", Span(span.end, end), "strict JSON has no such space", cure="write a plain space"
    )
    return Token(kind, value, span, end, (odd,))


def _number(number: str, real: str, start: int, end: int) -> Token:
    """A number, or a fault where Python cannot hold it."""
    span = Span(start, start + len(number))
    departures: tuple[Problem, ...] = ()
    if not number.isascii():
        odd = "strict JSON has no such digits"
        departures = (Problem("number-format", span, odd, cure="write the digits 0 to 9"),)
    if not real:
        if len(number) > MAX_DIGITS and len(number.lstrip("-")) > MAX_DIGITS:
            message = f"a number of more than {MAX_DIGITS} digits, which Python refuses to read"
            return Token("number", None, span, end, departures, (_number_fault(span, message),))
        return Token("number", int(number), span, end, departures)
    value = real_number(number)
    if value in (float("inf"), float("-inf")):
        message = f"{shown(number)} is too large for a float, and the loader crashes on it"
        return Token("number", value, span, end, departures, (_number_fault(span, message),))
    return Token("number", value, span, end, departures)


def _number_fault(span: Span, message: str) -> Fault:
    return Fault(span, message, "write a smaller number", fatal=True)


def _read_unquoted_text(text: str, start: int) -> Token:
    line_end = text.find("\n", start)
    if line_end < 0:
        line_end = len(text)
    line = text[start:line_end]
    value = line.strip()
    begin = start + len(line) - len(line.lstrip()) if value else start
    span = Span(begin, begin + len(value))
    return Token("string", value, span, line_end, (_judge_unquoted(value, span),))


class Dissection(NamedTuple):
    """What the author of an unquoted text most likely meant by it."""

    word: str  # the value meant
    rest: str  # what the loader takes for more of the same string
    swallowed: str  # "" or what the rest holds: "pair", "bracket", "comma" or "comment"


def dissect(value: str) -> Dissection:
    """Split unquoted text into the value that was meant and what was not meant to belong to it."""
    if value.isalnum():
        return Dissection(value, "", "")
    first = re.match(_TUPLE, value) or re.match(_FIRST_WORD, value)
    word = first[0] if first else value
    swallowed = _swallowed(word, value[len(word) :])
    if swallowed == "bracket" and not _is_value(word) and not re.match(_ENDS_WORD, value[len(word) :]):
        words = re.match(r"[^,{}\[\]]+", value)  # text of several words
        word = words[0].rstrip() if words else word
    return Dissection(word, value[len(word) :], swallowed)


def _swallowed(word: str, rest: str) -> str:
    if re.match(_PAIR_AHEAD, rest) or (_is_value(word) and re.match(_BARE_PAIR_AHEAD, rest)):
        return "pair"
    if _unbalanced(rest):
        return "bracket"
    if rest.endswith(","):
        return "comma"
    return "comment" if re.search(_COMMENT_AHEAD, rest) else ""


def comma_missing(parts: Dissection) -> bool:
    """Whether all that is wrong with unquoted text is a comma missing behind its first word."""
    if parts.swallowed not in ("pair", "bracket") or parts.rest.lstrip().startswith((",", "}", "]", ":")):
        return False
    return parts.swallowed == "pair" or _is_value(parts.word)


def _is_value(word: str) -> bool:
    return word in KEYWORDS or word in _PYTHON_WORDS or re.fullmatch(_STRICT_NUMBER, word) is not None


def _unbalanced(text: str) -> bool:
    """Whether brackets open or close in a text that do not belong to each other."""
    depth = 0
    for bracket in re.findall(r"[{}\[\]]", text):
        depth += 1 if bracket in "{[" else -1
        if depth < 0:
            return True
    return depth > 0


def _judge_unquoted(value: str, span: Span) -> Problem:
    """The departure of unquoted text: the most telling one of the rules that could speak about it."""
    parts = dissect(value)
    reads = f'DeepSpeed reads the string "{shown(value)}"'
    if comma_missing(parts):
        message = f"no comma after {shown(parts.word)}, so {reads}"
        return Problem("swallowed-comma", span, message, cure=comma_cure(parts))
    if parts.swallowed or not parts.rest.strip():
        rule = _rule_of_word(parts.word)
        if rule:
            return Problem(rule, span, f"{what_is(parts.word)}; {reads}", cure=cure_of_word(parts.word))
    if parts.swallowed == "comment":
        message = f"text without quotes takes the comment behind it: {reads}"
        return Problem("swallowed-comment", span, message, cure="put the text in double quotes")
    if parts.swallowed:
        message = f"text without quotes runs to the end of its line: {reads}"
        return Problem("swallowed-comma", span, message, cure=cure_of_word(parts.word))
    cure = cure_of_word(value) if len(value) <= 40 and '"' not in value else "put the text in double quotes"
    return Problem("unquoted-string", span, f"text without quotes; {reads}", cure=cure)


def _rule_of_word(word: str) -> str:
    if word in _PYTHON_WORDS:
        return "python-literal"
    if word in _NAN_WORDS:
        return "nan-or-infinity"
    return "number-format" if _is_numberlike(word) else ""


def what_is(word: str) -> str:
    """What a bare word is that JSON has not, for the start of a message."""
    said = {
        "python-literal": "is Python",
        "nan-or-infinity": "is no number here",
        "number-format": "is no JSON number",
    }
    return f"{shown(word)} {said.get(_rule_of_word(word), 'has no quotes')}"


def _is_numberlike(word: str) -> bool:
    """Whether a word was meant as a number, but is not written as JSON writes one."""
    return bool(re.fullmatch(_NUMBERLIKE, word)) and not re.fullmatch(_STRICT_NUMBER, word)


def comma_cure(parts: Dissection) -> str:
    """The cure where a comma is missing."""
    if parts.rest.lstrip().startswith(";"):
        return "write , instead of ;"
    return f"put a comma after {shown(parts.word)}"


def cure_of_word(word: str) -> str:
    """What to write instead of a bare word that JSON has not."""
    if word in _PYTHON_WORDS:
        return f"write {_PYTHON_WORDS[word]}"
    if word in _NAN_WORDS:
        return "write a finite number, or leave the key out"
    if word.lower() in KEYWORDS:
        return f"write {word.lower()}"
    if word.startswith("(") and word.endswith(")"):
        return f"write [{shown(word[1:-1])}]"
    if _is_numberlike(word):
        return "write a plain number"
    if re.fullmatch(_STRICT_NUMBER, word):
        return f"write {word} alone"
    escaped = shown(word.strip(_CURLY_QUOTES)).replace("\\", "\\\\")
    return f'write "{escaped}"'


def judge_key(key: str, span: Span) -> Problem:
    """The departure of a key without double quotes."""
    bare = key.strip(_CURLY_QUOTES)
    message, cure = "strict JSON needs double quotes around a key", f'write "{shown(bare)}"'
    if bare != key:
        message = f"curly quotes are no quotes: DeepSpeed reads the key {shown(key)} with them"
    elif '"' in key or "'" in key:
        message = f"DeepSpeed reads the key {shown(key)} with the quote in it"
        cure = "look for a quote that is missing before it"
    return Problem("unquoted-key", span, message, cure=cure)


def meant_value(start: int, parts: Dissection) -> Token:
    """Unquoted text as the value its author meant; reading goes on behind that."""
    token = read_unquoted(_PYTHON_WORDS.get(parts.word, parts.word), 0)
    end = start + len(parts.word)
    blanks = len(parts.rest) - len(parts.rest.lstrip())
    semicolon = parts.rest.startswith(";", blanks)
    return Token(token.kind, token.value, Span(start, end), end + blanks + 1 if semicolon else end)
