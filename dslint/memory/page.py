"""`--estimate --format html`: one self-contained page. Pictures are SVG; nothing is loaded from anywhere."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape as _escape
from typing import TYPE_CHECKING, Any

from dslint import __version__
from dslint.memory.show import figure, span
from dslint.report.words import counted

if TYPE_CHECKING:
    from dslint.finding import FileReport

COLORS = {
    "weights": "#4269d0",
    "whole model before partitioning": "#4269d0",
    "persistent parameters": "#8aa4e8",
    "secondary partition": "#b7c6f2",
    "master weights": "#6b4fbb",
    "optimizer states": "#a463f2",
    "gradients": "#e0559b",
    "buffers": "#97bbf5",
    "reduce buckets": "#9c6b4e",
    "gathered parameters": "#38a3a5",
    "activations": "#3ca951",
    "recomputed layer": "#8fd694",
    "logits": "#efb118",
    "kept logits": "#f5d77d",
    "step copies": "#ff725c",
    "allocator slack": "#9aa0a6",
    "context": "#c7cacd",
}
"""Item -> its colour, the same in every picture."""

WIDTH, RIGHT, ROW, BAR, TOP = 920, 70, 34, 22, 26
"""Sizes of a picture in SVG units; labels stand to the left of the bars."""

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""Nothing runs and nothing is loaded, whatever a file's name or a model's name holds."""

STYLE = """
:root { color-scheme: light dark; --ink: #1c1e21; --soft: #5f6368; --line: #d5d8dc; --ground: #fff;
  --good: #1a7f37; --warn: #9a6700; --bad: #cf222e; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e8eb; --soft: #9aa0a6; --line: #3c4046;
  --ground: #17191c; --good: #3fb950; --warn: #d29922; --bad: #f85149; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1080px; padding: 24px; background: var(--ground); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 22px; } h2 { font-size: 17px; margin: 28px 0 8px; overflow-wrap: anywhere; }
.verdict { font-size: 18px; font-weight: 600; }
.fits { color: var(--good); } .tight { color: var(--warn); } .cannot-fit { color: var(--bad); }
.soft { color: var(--soft); }
svg { display: block; width: 100%; height: auto; }
svg text { font: 13px system-ui, sans-serif; fill: var(--ink); }
svg .soft { fill: var(--soft); }
svg .grid { stroke: var(--line); } svg .card { stroke: var(--bad); stroke-dasharray: 4 3; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: 3px 7px; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
.legend { display: flex; flex-wrap: wrap; gap: 4px 16px; margin: 8px 0; padding: 0; list-style: none; }
.legend i { display: inline-block; width: 12px; height: 12px; border-radius: 2px; margin-right: 6px; }
"""


def escape(text: object) -> str:
    """Text for HTML; what does not print, and what turns text round, is spelled out."""
    shown = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in str(text))
    return _escape(shown)


def render(reports: Sequence[FileReport]) -> str:
    """The page of all estimates of a run."""
    body = "\n".join(
        _file(report, section.data)
        for report in reports
        for section in report.sections
        if section.name == "estimate"
    )
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        f"<title>dslint: will it fit</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        f'<h1>Will it fit</h1>\n{body}\n<p class="soft">dslint {escape(__version__)}</p>\n</body>\n</html>\n'
    )


def _file(report: FileReport, data: dict[str, Any]) -> str:
    several = data.get("side_by_side")
    target = report.target
    model = data["model"]
    head = (
        f"<h2>{escape(report.document.name)}</h2>\n"
        f'<p class="soft">{escape(model["name"])}, {model["parameters"] / 1e9:.3g} billion parameters'
        f"{_trained(model)}; DeepSpeed {escape(target.release)}, trainer {escape(target.trainer)}</p>\n"
        f"{_findings(report)}"
    )
    if several:
        return head + _comparison(several) + _assumed(data)
    return head + _one(data) + _assumed(data)


def _findings(report: FileReport) -> str:
    """What was found in the file, a line each: it decides the exit code."""
    if not report.findings:
        return ""
    rows = []
    for finding in report.findings:
        line, column = report.document.position(finding.start)
        where = f"{line}:{column}: {finding.severity} {finding.code} {finding.name}"
        rows.append(f"<li>{escape(where)}: {escape(finding.message)}</li>")
    return f"<ul>{''.join(rows)}</ul>\n"


def _trained(model: dict[str, Any]) -> str:
    if model["method"] == "full":
        return ""
    return f", {model['trainable'] / 1e6:.3g} million trained ({escape(model['method'])})"


def _one(data: dict[str, Any]) -> str:
    c = data["configuration"]
    offload = ", ".join(
        f"{key.split('_')[1]} on {c[key]}"
        for key in ("offload_optimizer", "offload_param")
        if c[key] != "none"
    )
    told = (
        f"ZeRO-{c['stage']}{', ' + offload if offload else ''}, {counted(c['gpus'], 'GPU')}, "
        f"{c['precision']}, {c['micro_batch']} x {c['seq_len']} tokens, "
        f"{c['gradient_accumulation']} accumulation, checkpointing {'on' if c['checkpointing'] else 'off'}"
    )
    rows = [(phase, items, "") for phase, items in data["items_gib"].items()]
    rows = [(phase, items, f"{sum(items.values()):.1f}") for phase, items, _ in rows]
    change = data.get("change")
    more = ""
    if change:
        more = (
            f"<p>To make it fit: <strong>{escape(change['words'])}</strong>, then "
            f"{change['per_gpu_gib']['device_total']:.1f} GiB.</p>\n"
        )
    return (
        f"<p>{escape(told)}</p>\n{_verdict(data)}{more}"
        f"{picture(rows, data['card_gib'], 'GiB of one GPU, phase by phase')}{_legend(rows)}"
        f"{_table(data)}{_facts(data)}"
    )


def _verdict(data: dict[str, Any]) -> str:
    total, card = data["per_gpu_gib"]["device_total"], data["card_gib"]
    if card is None:
        return f'<p class="verdict">{total:.1f} GiB at the peak ({escape(data["peak_phase"])})</p>\n'
    words = {"fits": "fits", "tight": "tight", "cannot-fit": "cannot fit"}[data["verdict"]]
    margin = data["margin_gib"]
    left = f"{margin:.1f} GiB to spare" if margin >= 0 else f"{-margin:.1f} GiB too much"
    return (
        f'<p class="verdict {data["verdict"]}">{words}: {total:.1f} of {card:.1f} GiB at the peak '
        f"({escape(data['peak_phase'])}), {left}</p>\n"
    )


def picture(rows: Sequence[tuple[str, dict[str, float], str]], card: float | None, title: str) -> str:
    """Stacked bars as SVG: (label, item -> GiB, text at the end) a row, against the card's memory."""
    totals = [sum(items.values()) for _, items, _ in rows]
    scale = max([*totals, card or 0.0, 1e-9]) * 1.02
    left = 24 + round(7.2 * max(len(label) for label, _, _ in rows))
    room = WIDTH - left - RIGHT
    height = TOP + ROW * len(rows) + 26
    out = [f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title)}">']
    for tick in _ticks(scale):
        x = left + tick / scale * room
        out.append(
            f'<line class="grid" x1="{x:.1f}" y1="{TOP - 4}" x2="{x:.1f}" y2="{height - 24}"/>'
            f'<text class="soft" x="{x:.1f}" y="{height - 8}" text-anchor="middle">{tick:g}</text>'
        )
    for index, (label, items, end) in enumerate(rows):
        y = TOP + index * ROW
        out.append(f'<text x="{left - 10}" y="{y + 16}" text-anchor="end">{escape(label)}</text>')
        x = float(left)
        for item, size in items.items():
            width = size / scale * room
            out.append(
                f'<rect x="{x:.2f}" y="{y}" width="{width:.2f}" height="{BAR}" '
                f'fill="{COLORS.get(item, "#777")}"><title>{escape(item)}: {size:.2f} GiB</title></rect>'
            )
            x += width
        out.append(f'<text x="{x + 6:.1f}" y="{y + 16}">{escape(end)}</text>')
    if card is not None:
        x = left + card / scale * room
        out.append(
            f'<line class="card" x1="{x:.1f}" y1="{TOP - 8}" x2="{x:.1f}" y2="{height - 24}"/>'
            f'<text class="soft" x="{x:.1f}" y="{TOP - 12}" text-anchor="middle">the card: {card:.1f}</text>'
        )
    return "\n".join([*out, "</svg>\n"])


def _ticks(scale: float) -> list[float]:
    step = next(
        (s for s in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000) if scale / s <= 8),
        10000.0,
    )
    return [step * i for i in range(int(scale / step) + 1)]


def _legend(rows: Sequence[tuple[str, dict[str, float], str]]) -> str:
    used = [item for item in COLORS if any(item in items for _, items, _ in rows)]
    entries = "".join(f'<li><i style="background:{COLORS[item]}"></i>{escape(item)}</li>' for item in used)
    return f'<ul class="legend">{entries}</ul>\n'


def _table(data: dict[str, Any]) -> str:
    phases = data["items_gib"]
    used = [item for item in COLORS if any(item in items for items in phases.values())]
    head = "".join(f"<th>{escape(phase)}</th>" for phase in phases)
    body = "".join(
        f"<tr><td>{escape(item)}</td>"
        + "".join(
            f"<td>{items[item]:.2f}</td>" if item in items else "<td></td>" for items in phases.values()
        )
        + "</tr>"
        for item in used
    )
    return f'<div class="wide"><table><tr><th>GiB</th>{head}</tr>{body}</table></div>\n'


def _facts(data: dict[str, Any]) -> str:
    per_gpu, moved = data["per_gpu_gib"], data["traffic_gb_per_step"]
    facts = [
        f"between steps {per_gpu['allocated_steady']:.1f} GiB allocated; at the peak "
        f"{per_gpu['allocated_peak']:.1f} allocated, {per_gpu['reserved_peak']:.1f} reserved"
    ]
    if data["host_gib_per_node"]:
        facts.append(
            f"host memory {data['host_gib_per_node']:.1f} GiB a node, "
            f"{data['host_pinned_gib_per_node']:.1f} of it pinned"
        )
    words = {
        "wire": "sent by each GPU",
        "between_nodes": "of it between nodes",
        "host_link": "over each host link",
        "nvme": "to and from NVMe a node",
    }
    sent = [f"{figure(moved[key])} GB {text}" for key, text in words.items() if moved[key]]
    if sent:
        facts.append("an optimizer step: " + ", ".join(sent))
    if data["speed"]:
        facts.append(
            f"a step takes {span(data['speed']['step_seconds'], 's')}; communication and offload not hidden: "
            f"{data['speed']['exposed_share'][0]:.0%} to {data['speed']['exposed_share'][1]:.0%}"
        )
    return "<ul>" + "".join(f"<li>{escape(fact)}</li>" for fact in facts) + "</ul>\n"


def _comparison(several: list[dict[str, Any]]) -> str:
    rows = []
    for entry in several:
        items = entry["items_gib"][entry["peak_phase"]]
        rows.append((entry["name"], items, f"{entry['per_gpu_gib']['device_total']:.1f}"))
    body = "".join(
        f'<tr><td>{escape(e["name"])}</td><td class="{e["verdict"] or ""}">'
        f"{escape((e['verdict'] or 'unknown').replace('-', ' '))}</td>"
        f"<td>{e['per_gpu_gib']['device_total']:.1f}</td>"
        f"<td>{'' if e['margin_gib'] is None else format(e['margin_gib'], '+.1f')}</td>"
        f"<td>{round(e['host_gib_per_node']) or ''}</td><td>{figure(e['traffic_gb_per_step']['wire'])}</td>"
        f"<td>{_range(e['speed'])}</td></tr>"
        for e in several
    )
    head = "".join(
        f"<th>{h}</th>"
        for h in ("configuration", "verdict", "GiB a GPU", "margin", "host GiB", "GB sent", "tokens/s")
    )
    return (
        f"{picture(rows, several[0]['card_gib'], 'GiB of one GPU at the peak')}{_legend(rows)}"
        f'<div class="wide"><table><tr>{head}</tr>{body}</table></div>\n'
    )


def _range(speed: dict[str, Any] | None) -> str:
    if not speed:
        return ""
    low, high = speed["tokens_per_second"]
    return f"{low:,} to {high:,}"


def _assumed(data: dict[str, Any]) -> str:
    if not data["assumptions"]:
        return ""
    entries = "".join(f"<li>{escape(words)}</li>" for words in data["assumptions"])
    return f'<p class="soft">Assumed:</p>\n<ul class="soft">{entries}</ul>\n'
