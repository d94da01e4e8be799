"""For a person at a terminal: each finding with the line it is about, and what to write instead.

    ds.json:4:5 warning[DS401] offload-param-needs-stage-3 [*]
      offload_param has no effect in ZeRO stage 2; only stage 3 partitions parameters
      4 |     "offload_param": {"device": "cpu"},
        |     ^^^^^^^^^^^^^^^ runs, but not as meant
      help: set zero_optimization.stage to 3

    1 warning in 1 file (DeepSpeed 0.19.8: installed; trainer raw; GPUs unknown)

[*] marks what --fix mends. Advice (info) shows no source line. What is printed besides the file's own text is
ASCII, so that it reads the same in every locale.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dslint.report.escape import character, line_head, log_command_hashes, visible
from dslint.report.words import bites, cure, fixable, said, sections, summary

if TYPE_CHECKING:
    from dslint.document import Document
    from dslint.finding import FileReport, Finding

WIDTH = 100
"""Columns of source shown; a longer line is cut around the place."""

_LINE_END = re.compile("[\r\n]")
_SEVERITY_COLORS = {"error": "1;31", "warning": "1;33", "info": "1;36"}
_BOLD, _BLUE = "1", "1;34"


def render(reports: Sequence[FileReport], *, color: bool = False) -> str:
    """Every finding, then the closing line; nothing for no files."""
    if not reports:
        return ""
    blocks = []
    for report in reports:
        name = line_head(visible(report.document.name))
        blocks += [_block(report.document, name, finding, color) for finding in report.findings]
    blocks += sections(reports)
    return "\n".join([*blocks, fixable(reports) + _paint(summary(reports), _BOLD, color) + "\n"])


def _block(document: Document, name: str, finding: Finding, color: bool) -> str:
    """One finding with its frame, ending with a line end."""
    severity = _SEVERITY_COLORS[finding.severity]
    line, column = document.position(finding.start)
    where = _paint(f"{name}:{line}:{column}", _BOLD, color)
    what = _paint(f"{finding.severity}[{finding.code}]", severity, color)
    mark = " [*]" if finding.fix is not None and finding.fix.safe else ""
    head = [f"{where} {what} {visible(finding.name)}{mark}", f"  {line_head(visible(said(finding)))}"]
    lines = head
    if finding.severity != "info":  # advice is brief: it is less about a line than about the run
        source, before, carets = frame(document, finding.start, finding.end)
        number, bar = str(line), _paint("|", _BLUE, color)
        lines += [
            f"  {_paint(number, _BLUE, color)} {bar} {source}".rstrip(),
            f"  {' ' * len(number)} {bar} {' ' * before}"
            + _paint(f"{'^' * carets} {bites(finding)}", severity, color),
        ]
    if help_ := cure(finding):
        lines.append(f"  {_paint('help:', _BLUE, color)} {visible(help_)}")
    return "\n".join(lines) + "\n"


def _paint(text: str, code: str, color: bool) -> str:
    return f"\x1b[{code}m{text}\x1b[0m" if color else text


def frame(document: Document, start: int, end: int, width: int = WIDTH) -> tuple[str, int, int]:
    """The line at `start` as shown, the columns before the underline, and the columns underlined.

    Of a span over several lines the first is shown. However long the line, only a window around
    `start` is looked at, so that many findings in one huge line stay cheap.
    """
    text = document.text
    begin = start - (document.position(start)[1] - 1)
    low, high = max(begin, start - 4 * width), min(len(text), start + 4 * width)
    line_end = _LINE_END.search(text, low, high)
    stop = line_end.start() if line_end else high
    window = text[low:stop]
    cells, widths = _cells(window)
    first = min(start, stop) - low  # a span may begin at the line's end, where no character stands
    last = max(first, min(end, stop) - low)
    cut_left, cut_right = low > begin, line_end is None and stop < len(text)
    left, right = 0, len(cells)
    if cut_left or cut_right or sum(widths) > width:
        spare = max(width - sum(widths[first:last]), width // 3)
        room = max(spare // 2, spare - sum(widths[last:]))
        left = first
        while left > 0 and (room := room - widths[left - 1]) >= 0:
            left -= 1
        room, right = width - sum(widths[left:first]), first
        while right < len(cells) and (room := room - widths[right]) >= 0:
            right += 1
        last = min(last, right)
        cut_left, cut_right = cut_left or left > 0, cut_right or right < len(cells)
    shown = ("..." if cut_left else "") + "".join(cells[left:right]) + ("..." if cut_right else "")
    before = 3 * cut_left + sum(widths[left:first])
    while last > first + 1 and cells[last - 1].isspace():
        last -= 1  # no carets under the blanks at the end of a line
    return shown, before, max(1, sum(widths[first:last]))


def _cells(text: str) -> tuple[Sequence[str], list[int]]:
    """What is shown for each character, and the columns that it takes."""
    hashes = log_command_hashes(text)
    if text.isascii() and text.isprintable() and not hashes:
        return text, [1] * len(text)
    cells = [
        "\\u0023" if i in hashes else "    " if char == "\t" else character(char)
        for i, char in enumerate(text)
    ]
    return cells, [len(cell) if cell.isascii() else _columns(cell) for cell in cells]


def _columns(char: str) -> int:
    """Columns a terminal gives a printable character: 2 for East Asian wide ones, 0 for combining marks."""
    # Imported here: most configs are ASCII, and every commit pays for what is imported.
    from unicodedata import category, east_asian_width

    if category(char) in ("Mn", "Me"):
        return 0
    return 2 if east_asian_width(char) in ("W", "F") else 1
