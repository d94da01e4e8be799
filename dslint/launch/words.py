"""A shell script as words: quotes, line continuations and variables, and where each word stands.

Nothing is run. A variable has the value of the assignments above it in the script; one that is assigned
twice with different values, comes from the environment or from a command has no known value.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

MAX_SIZE: Final = 1 << 18
"""Characters of a script; longer ones are not read."""

MAX_WORDS: Final = 5_000
"""Words of a script after its variables were put in."""

MAX_VALUE: Final = 1 << 14
"""Characters of a variable's value; a longer one counts as unknown."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?=)")
_ENDS = ("&&", "||", ";;", "|&", ";", "|", "&", "\n", "(", ")")
_HEREDOC = re.compile(r"<<-?\s*(['\"]?)([A-Za-z_][A-Za-z0-9_]*)\1")
_ENVIRONMENT = {"CUDA_VISIBLE_DEVICES", "NPROC_PER_NODE", "NNODES", "SWIFT_SINGLE_DEVICE_MODE"}
"""Variables that launchers read."""

UNRESOLVED = "\x00"
"""Stands in a word for the part nobody can know from here."""


@dataclass(slots=True)
class Word:
    """One word as the shell hands it to a command, with the line it begins on."""

    text: str
    line: int

    @property
    def known(self) -> bool:
        """Whether every part of it is known."""
        return UNRESOLVED not in self.text


@dataclass(slots=True)
class Command:
    """A simple command: what is assigned before it, and its words."""

    words: list[Word]
    environment: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class _Piece:
    """Part of a raw word: text, or the name of a variable; `split` where the shell splits its value."""

    text: str
    variable: bool = False
    split: bool = False
    default: str | None = None


@dataclass(slots=True)
class _Raw:
    """A word before variables are put in."""

    pieces: list[_Piece]
    line: int
    array: list[_Raw] | None = None


def commands(text: str) -> list[Command]:
    """The simple commands of a script, in order, variables put in as far as they are known."""
    if len(text) > MAX_SIZE:
        return []
    text = text.replace("\r\n", "\n")
    shell = _Shell()
    found: list[Command] = []
    count = 0
    for raw in _statements(text):
        command = shell.take(raw)
        if command is not None:
            count += len(command.words)
            if count > MAX_WORDS:
                break
            found.append(command)
    return found


class _Shell:
    """Keeps the variables while statements pass by."""

    def __init__(self) -> None:
        self.values: dict[str, list[Word]] = {}
        self.depth = 0  # inside if, for, while, case or a function: assignments there may not happen

    def take(self, raw: list[_Raw]) -> Command | None:
        """One statement: a command, or assignments that the next ones see."""
        environment: dict[str, str] = {}
        assigned: list[tuple[str, str, list[Word]]] = []
        position = 0
        while position < len(raw):
            head = raw[position].pieces[0] if raw[position].pieces else None
            keyword = head.text if head is not None and len(raw[position].pieces) == 1 else ""
            if keyword in ("then", "do", "else", "{", "!", "time", "exec", "env", "nohup", "sudo", "eval"):
                position += 1
                continue
            if keyword in ("export", "declare", "local", "readonly", "typeset"):
                position += 1
                while (
                    position < len(raw)
                    and raw[position].pieces[:1]
                    and raw[position].pieces[0].text.startswith("-")
                ):
                    position += 1
                continue
            match = _ASSIGNMENT.match(head.text) if head is not None and not head.variable else None
            if match is None:
                break
            kind = match[2] + "()" if raw[position].array is not None else match[2]
            assigned.append((match[1], kind, self.assigned(raw[position], match.end())))
            position += 1
        first = raw[position].pieces[0].text if position < len(raw) and raw[position].pieces else ""
        if first in ("if", "for", "while", "until", "case", "select", "function"):
            self.depth += 1
            if first == "for" and position + 1 < len(raw):
                self.values[raw[position + 1].pieces[0].text] = [Word(UNRESOLVED, raw[position + 1].line)]
        elif first in ("fi", "done", "esac", "}"):
            self.depth = max(0, self.depth - 1)
        words = [word for item in raw[position:] for word in self.expand(item)]
        if not words:
            for name, kind, value in assigned:
                self.assign(name, kind, value)
            return None
        for name in _ENVIRONMENT & set(self.values):
            environment[name] = " ".join(word.text for word in self.values[name])
        for name, _, value in assigned:
            environment[name] = " ".join(word.text for word in value)
        return Command(words, environment)

    def assigned(self, raw: _Raw, start: int) -> list[Word]:
        """The value of an assignment: one word, or those of an array."""
        if raw.array is not None:
            return [word for item in raw.array for word in self.expand(item)]
        pieces = [
            _Piece(raw.pieces[0].text[start:]),
            *(_Piece(p.text, p.variable, False, p.default) for p in raw.pieces[1:]),
        ]
        return self.expand(_Raw(pieces, raw.line)) or [Word("", raw.line)]

    def assign(self, name: str, kind: str, value: list[Word]) -> None:
        """Sets a variable. `kind`: = or +=, with () behind it where the value is an array."""
        before = self.values.get(name)
        if sum(len(word.text) for word in value) > MAX_VALUE or len(value) > MAX_WORDS:
            value = [Word(UNRESOLVED, value[0].line)]
        if kind.startswith("+"):
            joined = [*(before or []), *value]
            if kind == "+=" and before is not None and len(before) == 1 and len(value) == 1:
                joined = [Word(before[0].text + value[0].text, value[0].line)]
            if self.depth:  # may not happen, and may happen more than once
                joined = [*joined, Word(UNRESOLVED, value[0].line if value else 0)]
            self.values[name] = joined
        elif self.depth and before is not None and [w.text for w in before] != [w.text for w in value]:
            self.values[name] = [Word(UNRESOLVED, value[0].line if value else 0)]
        else:
            self.values[name] = value

    def expand(self, raw: _Raw) -> list[Word]:
        """The words that a word becomes once its variables are put in."""
        words = [Word("", raw.line)]
        fresh = True  # the last word holds nothing yet, not even an empty quoted string
        for piece in raw.pieces:
            if len(words) > MAX_WORDS or len(words[-1].text) > MAX_VALUE:
                return [Word(UNRESOLVED, raw.line)]  # a variable that doubles with every line
            if not piece.variable:
                words[-1].text += piece.text
                fresh = fresh and not piece.text and not piece.split
                continue
            value = self.values.get(piece.text)
            if value is None:
                words[-1].text += UNRESOLVED
                fresh = False
                continue
            parts = [Word(w.text, w.line) for w in value]
            if piece.split:
                parts = [Word(text, word.line) for word in parts for text in word.text.split()]
            if not parts:
                continue
            if not words[-1].text:
                words[-1].line = parts[0].line
            words[-1].text += parts[0].text
            words += parts[1:]
            fresh = False
        return [] if fresh and len(words) == 1 and not words[0].text else words


def _statements(text: str) -> list[list[_Raw]]:
    """The raw words of every simple command."""
    found: list[list[_Raw]] = []
    current: list[_Raw] = []
    position, line = 0, 1
    pending: list[str] = []  # ends of here-documents that begin on this line
    while position < len(text):
        char = text[position]
        if text.startswith("\\\n", position):
            position, line = position + 2, line + 1
        elif char in " \t":
            position += 1
        elif char == "#":
            end = text.find("\n", position)
            position = len(text) if end < 0 else end
        elif char == "\n":
            position, line = position + 1, line + 1
            for end_word in pending:
                position, line = _skip_heredoc(text, position, line, end_word)
            pending.clear()
            if current:
                found.append(current)
                current = []
        elif text.startswith("<<<", position):
            position += 3
        elif _HEREDOC.match(text, position):
            match = _HEREDOC.match(text, position)
            assert match is not None
            pending.append(match[2])
            position = match.end()
        elif char in "<>":
            position += 1
            while position < len(text) and text[position] in "<>&|":
                position += 1
            while position < len(text) and text[position] in " \t":
                position += 1
            _, position, line = _word(text, position, line)
        elif any(text.startswith(end, position) for end in _ENDS):
            if text.startswith(("&>",), position):
                position += 1
                continue
            position += 1
            if current:
                found.append(current)
                current = []
        else:
            word, position, line = _word(text, position, line)
            if (
                word.pieces
                and position < len(text)
                and text[position] == ">"
                and word.pieces[0].text.isdigit()
            ):
                continue  # 2>&1
            last = word.pieces[-1].text if word.pieces else ""
            if last.endswith("=") and position < len(text) and text[position] == "(":
                word.array, position, line = _array(text, position + 1, line)
            current.append(word)
    if current:
        found.append(current)
    return found


def _skip_heredoc(text: str, position: int, line: int, end_word: str) -> tuple[int, int]:
    while position < len(text):
        end = text.find("\n", position)
        end = len(text) if end < 0 else end
        row = text[position:end].strip()
        position, line = min(end + 1, len(text)), line + 1
        if row == end_word:
            break
    return position, line


def _array(text: str, position: int, line: int) -> tuple[list[_Raw], int, int]:
    items: list[_Raw] = []
    while position < len(text) and text[position] != ")":
        if text.startswith("\\\n", position):
            position, line = position + 2, line + 1
        elif text[position] == "\n":
            position, line = position + 1, line + 1
        elif text[position] in " \t":
            position += 1
        elif text[position] == "#":
            end = text.find("\n", position)
            position = len(text) if end < 0 else end
        else:
            before = position
            word, position, line = _word(text, position, line)
            items.append(word)
            position = max(position, before + 1)
    return items, position + 1, line


def _word(text: str, position: int, line: int) -> tuple[_Raw, int, int]:
    """The word that begins here; ends at a space, an operator or the end of the text."""
    word = _Raw([], line)
    buffer = ""
    quoted = False

    def flush() -> None:
        nonlocal buffer, quoted
        if buffer or quoted:
            word.pieces.append(_Piece(buffer, split=quoted))
        buffer, quoted = "", False

    while position < len(text):
        char = text[position]
        if char in " \t\n;|&()<>":
            break
        if char == "\\":
            if position + 1 < len(text):
                if text[position + 1] == "\n":
                    line += 1
                else:
                    buffer += text[position + 1]
            position += 2
        elif char == "'":
            end = text.find("'", position + 1)
            end = len(text) if end < 0 else end
            buffer += text[position + 1 : end]
            quoted = True
            line += text.count("\n", position, end)
            position = end + 1
        elif char == '"':
            flush()
            position, line = _double_quoted(text, position + 1, line, word)
        elif char == "`" or text.startswith("$(", position):
            flush()
            end = _end_of_substitution(text, position)
            line += text.count("\n", position, end)
            word.pieces.append(_Piece(UNRESOLVED))
            position = end
        elif char == "$":
            flush()
            piece, position = _variable(text, position, True)
            word.pieces.append(piece)
        else:
            buffer += char
            position += 1
    flush()
    return word, position, line


def _double_quoted(text: str, position: int, line: int, word: _Raw) -> tuple[int, int]:
    buffer = ""
    word.pieces.append(_Piece("", split=True))
    while position < len(text) and text[position] != '"':
        char = text[position]
        if char == "\\" and position + 1 < len(text):
            if text[position + 1] == "\n":
                line += 1
            else:
                buffer += (
                    text[position + 1] if text[position + 1] in '"\\$`' else text[position : position + 2]
                )
            position += 2
        elif char == "`" or text.startswith("$(", position):
            end = _end_of_substitution(text, position)
            line += text.count("\n", position, end)
            word.pieces += [_Piece(buffer), _Piece(UNRESOLVED)]
            buffer = ""
            position = end
        elif char == "$":
            piece, position = _variable(text, position, False)
            word.pieces += [_Piece(buffer), piece]
            buffer = ""
        else:
            line += char == "\n"
            buffer += char
            position += 1
    word.pieces.append(_Piece(buffer))
    return position + 1, line


def _end_of_substitution(text: str, position: int) -> int:
    if text[position] == "`":
        end = text.find("`", position + 1)
        return len(text) if end < 0 else end + 1
    depth, position = 0, position + 1
    while position < len(text):
        depth += (text[position] == "(") - (text[position] == ")")
        position += 1
        if depth == 0:
            break
    return position


def _variable(text: str, position: int, split: bool) -> tuple[_Piece, int]:
    """What a $ stands for."""
    if text.startswith("${", position):
        end = text.find("}", position)
        end = len(text) if end < 0 else end
        inner = text[position + 2 : end]
        array = inner.endswith(("[@]", "[*]"))
        name = _NAME.match(inner)
        if name is not None and (name[0] == inner or array):
            return _Piece(name[0], True, split and not array), end + 1
        return _Piece(UNRESOLVED), end + 1
    name = _NAME.match(text, position + 1)
    if name is not None:
        return _Piece(name[0], True, split), name.end()
    following = text[position + 1 : position + 2]
    if following and following in "0123456789@*#?$!-":
        return _Piece(UNRESOLVED), position + 2
    return _Piece("$"), position + 1
