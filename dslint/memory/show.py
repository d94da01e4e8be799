"""Estimates and recommendations as plain data (for JSON) and as lines for a terminal (ASCII)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dslint.memory.communication import Speed, Traffic, speed, traffic
from dslint.memory.hardware import GIB
from dslint.memory.job import NONE, Job
from dslint.memory.predict import FITS, PHASES, TIGHT, Estimate
from dslint.memory.recommend import Change, Choice, Recommendation, name, outside

WIDTH = 56
"""Columns of a bar."""
MARKS = {
    "weights": "W",
    "whole model before partitioning": "W",
    "persistent parameters": "w",
    "secondary partition": "s",
    "master weights": "M",
    "optimizer states": "O",
    "gradients": "G",
    "buffers": "b",
    "reduce buckets": "B",
    "gathered parameters": "P",
    "activations": "A",
    "recomputed layer": "R",
    "logits": "L",
    "kept logits": "l",
    "step copies": "C",
    "allocator slack": "/",
    "context": "x",
}
"""Item -> its letter in a bar."""
VERDICTS = {
    "fits": "fits",
    "tight": "tight",
    "cannot-fit": "cannot fit",
    None: "no verdict, the card is unknown",
}


def gib(size: float) -> float:
    """Bytes as GiB for people and reports: two decimals."""
    return round(size / GIB, 2)


def amount(size: float) -> str:
    """Bytes in words: "1.25 GB", "640 MB"."""
    for unit, scale in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= scale:
            return f"{size / scale:.3g} {unit}" if size < 1e15 else f"{size / scale:,.0f} {unit}"
    return f"{size:.0f} B"


def count(parameters: int) -> str:
    """A number of parameters in words: "6.74 B", "335 M"."""
    return f"{parameters / 1e9:.4g} B" if parameters >= 1e9 else f"{parameters / 1e6:.4g} M"


def figure(value: float) -> str:
    """Three digits of a number, or all before the point."""
    return f"{value:.3g}" if value < 999.5 else f"{value:,.0f}"


def span(pair: tuple[float, float], unit: str) -> str:
    """A range in words, with no more digits than it deserves."""
    low, high = (f"{value:.2g}" if value < 10 else f"{value:,.0f}" for value in pair)
    return f"{low} {unit}" if low == high else f"{low} to {high} {unit}"


def items_with_slack(estimate: Estimate, phase: str) -> dict[str, float]:
    """The items of a phase, and at the peak what the allocator and the context take."""
    items = {item: size for item, size in estimate.items[phase].items() if size > 0}
    if phase == estimate.peak_phase:
        items["allocator slack"] = estimate.reserved - estimate.peak
        items["context"] = estimate.outside
    return items


def data(estimate: Estimate) -> dict[str, Any]:
    """An estimate as the JSON report has it."""
    job = estimate.job
    moved, pace = traffic(job), speed(job)
    host = {
        "host_gib_per_node": gib(estimate.host),
        "host_pinned_gib_per_node": gib(estimate.pinned),
        "host_init_gib_per_node": gib(estimate.host_init),
        "nvme_gib_per_node": gib(estimate.nvme),
    }
    return {
        "verdict": estimate.verdict,
        "peak_phase": estimate.peak_phase,
        "per_gpu_gib": {
            "allocated_peak": gib(estimate.peak),
            "allocated_steady": gib(estimate.steady),
            "reserved_peak": gib(estimate.reserved),
            "device_total": gib(estimate.device),
        },
        "items_gib": {
            phase: {item: gib(size) for item, size in items_with_slack(estimate, phase).items()}
            for phase in PHASES
        },
        **host,
        "card_gib": None if job.gpu is None else gib(job.gpu.usable),
        "margin_gib": None if estimate.margin is None else gib(estimate.margin),
        "model": {
            "name": job.shape.name,
            "parameters": job.shape.parameters,
            "trainable": job.trained,
            "method": job.method,
        },
        "configuration": {
            "gpus": job.gpus,
            "stage": job.stage,
            "offload_optimizer": job.offload_optimizer,
            "offload_param": job.offload_param,
            "precision": job.precision,
            "micro_batch": job.micro_batch,
            "gradient_accumulation": job.accumulation,
            "seq_len": job.seq_len,
            "checkpointing": job.checkpointing,
        },
        "traffic_gb_per_step": {
            "wire": round(moved.wire / 1e9, 3),
            "between_nodes": round(moved.across / 1e9, 3),
            "host_link": round(moved.host / 1e9, 3),
            "nvme": round(moved.disk / 1e9, 3),
        },
        "speed": None if pace is None else _speed(pace),
        "assumptions": [*job.assumptions, *estimate.notes],
    }


def _speed(pace: Speed) -> dict[str, list[float]]:
    return {
        "step_seconds": [round(v, 3) for v in pace.step],
        "tokens_per_second": [round(v) for v in pace.tokens],
        "exposed_share": [round(v, 3) for v in pace.exposed],
    }


def headline(estimate: Estimate) -> str:
    """The verdict in one line."""
    job, margin = estimate.job, estimate.margin
    if job.gpu is None or margin is None:
        need = f"{estimate.device / GIB:.1f} GiB a GPU at the peak ({estimate.peak_phase})"
        return f"{need}; no verdict without the card: --gpu-type or --gpu-memory"
    left = f"{margin / GIB:.1f} GiB to spare" if margin >= 0 else f"{-margin / GIB:.1f} GiB too much"
    words = VERDICTS[estimate.verdict]
    if estimate.verdict not in (FITS, None) and estimate.host_verdict not in (FITS, None):
        assert job.host_memory is not None
        return (
            f"{words}: {estimate.host / GIB:.0f} GiB of host memory a node, of {job.host_memory / GIB:.0f}; "
            f"on the GPU {estimate.device / GIB:.1f} of {job.gpu.usable / GIB:.1f} GiB"
        )
    return (
        f"{words}: {estimate.device / GIB:.1f} of {job.gpu.usable / GIB:.1f} GiB at the peak "
        f"({estimate.peak_phase}), {left}"
    )


def subject(job: Job) -> str:
    """What was estimated, in one line."""
    card = job.gpu.name if job.gpu is not None else "GPU"
    trained = "" if job.method == "full" else f", {count(job.trained)} trained ({job.method})"
    return (
        f"{job.shape.name} ({count(job.shape.parameters)} parameters{trained}), {name(job)}, "
        f"{job.gpus} x {card}, {job.precision}, {job.micro_batch} x {job.seq_len} tokens "
        f"x {job.accumulation} accumulation"
    )


def bar(estimate: Estimate, phase: str, scale: float) -> str:
    """One phase as letters, `scale` bytes wide; a bar beyond the card is cut with ">"."""
    cells: list[str] = []
    total = 0.0
    for item, size in items_with_slack(estimate, phase).items():
        total += size
        upto = round(total / scale * WIDTH)
        cells += [MARKS[item]] * max(0, upto - len(cells))
    if len(cells) > WIDTH:
        return "".join(cells[: WIDTH - 1]) + ">"
    return "".join(cells).ljust(WIDTH, ".")


def lines(estimate: Estimate, change: Change | None = None) -> tuple[str, ...]:
    """An estimate for people."""
    job = estimate.job
    scale = job.gpu.usable if job.gpu is not None else max(estimate.device, 1.0)
    found = [f"estimate: {subject(job)}", f"  {headline(estimate)}", ""]
    end = f"{scale / GIB:.1f} GiB" + ("" if job.gpu is not None else " (peak)")
    found.append(f"  {'GiB':>15}  0{end:>{WIDTH}}")
    for phase in PHASES:
        items = items_with_slack(estimate, phase)
        found.append(f"  {phase:8} {sum(items.values()) / GIB:6.1f} |{bar(estimate, phase, scale)}|")
    used = [item for item in MARKS if any(item in items_with_slack(estimate, p) for p in PHASES)]
    legend = [f"{MARKS[item]} {item}" for item in used]
    found += ["", *_wrapped("  ", legend, 92), ""]
    found.append(f"  {'GiB':24}" + "".join(f"{phase:>10}" for phase in PHASES))
    for item in used:
        sizes = [items_with_slack(estimate, phase).get(item, 0.0) for phase in PHASES]
        if max(sizes) >= 0.005 * GIB:
            found.append(f"  {item:24}" + "".join(f"{s / GIB:10.2f}" if s else f"{'-':>10}" for s in sizes))
    found.append(f"  {'allocated':24}" + "".join(f"{estimate.allocated(p) / GIB:10.2f}" for p in PHASES))
    found += ["", *_facts(estimate)]
    if estimate.verdict not in (FITS, None):
        found += ["", *change_lines("", estimate, change)[1:]]
    if job.assumptions or estimate.notes:
        found += ["", "  assumed:", *(f"    - {words}" for words in (*job.assumptions, *estimate.notes))]
    return tuple(found)


def change_lines(path: str, estimate: Estimate, change: Change | None) -> tuple[str, ...]:
    """What a given config needs to fit, for people."""
    found = [f"{path}: {headline(estimate)}"]
    if change is not None:
        found += [
            f"  to make it fit: {change.words}",
            f"    then {headline(change.estimate)}{_pace(change.speed)}",
        ]
    elif estimate.verdict not in (FITS, None):
        found.append("  no setting makes it fit, nor do all of them together")
    return tuple(found)


def _wrapped(indent: str, words: Sequence[str], width: int) -> list[str]:
    rows, row = [], indent
    for word in words:
        if len(row) + len(word) > width and row.strip():
            rows.append(row.rstrip())
            row = indent
        row += word + "   "
    return [*rows, row.rstrip()]


def _facts(estimate: Estimate) -> list[str]:
    job = estimate.job
    moved, pace = traffic(job), speed(job)
    found = [
        f"  between steps {estimate.steady / GIB:.1f} GiB allocated; at the peak "
        f"{estimate.peak / GIB:.1f} allocated, {estimate.reserved / GIB:.1f} reserved, "
        f"{estimate.device / GIB:.1f} in nvidia-smi"
    ]
    if estimate.host or estimate.nvme:
        disk = f", {estimate.nvme / GIB:.1f} GiB on NVMe" if estimate.nvme else ""
        found.append(
            f"  host memory {estimate.host / GIB:.1f} GiB a node, "
            f"{estimate.pinned / GIB:.1f} of it pinned{disk}"
        )
    if estimate.host_init:
        found.append(
            f"  while loading: up to {estimate.host_init / GIB:.1f} GiB of host memory a node, "
            f"a whole model for each of {job.ranks_per_node} ranks"
        )
    found.append("  " + _traffic(moved, job))
    if pace is not None:
        low, high = pace.exposed
        share = f"under {max(high, 0.01):.0%}" if high < 0.05 else f"{low:.0%} to {high:.0%}"
        found.append(
            f"  a step takes {span(pace.step, 's')}, {span(pace.tokens, 'tokens/s')}; "
            f"communication and offload that computing cannot hide: {share} of it"
        )
    return found


def _traffic(moved: Traffic, job: Job) -> str:
    if job.gpus == 1 and not moved.host:
        return "one GPU: nothing to communicate"
    parts = [f"a step sends {amount(moved.wire)} a GPU"]
    if moved.across:
        parts.append(f"{amount(moved.across)} of it between nodes")
    if moved.host:
        parts.append(f"{amount(moved.host)} over its host link")
    if moved.disk:
        parts.append(f"{amount(moved.disk)} to and from NVMe a node")
    return ", ".join(parts)


def _pace(pace: Speed | None) -> str:
    return "" if pace is None else f"; {span(pace.tokens, 'tokens/s')}"


# Side by side

_COLUMNS = ("configuration", "verdict", "GiB a GPU", "margin", "host GiB", "GB sent", "tokens/s")


def side_by_side(labelled: Sequence[tuple[str, Estimate]], title: str) -> tuple[str, ...]:
    """Several estimates, one a row."""
    table = [_COLUMNS]
    for label, estimate in labelled:
        pace, moved = speed(estimate.job), traffic(estimate.job)
        table.append(
            (
                label,
                "unknown" if estimate.verdict is None else VERDICTS[estimate.verdict],
                f"{estimate.device / GIB:.1f}",
                "-" if estimate.margin is None else f"{estimate.margin / GIB:+.1f}",
                f"{estimate.host / GIB:.0f}" if estimate.host else "-",
                figure(moved.wire / 1e9),
                "-" if pace is None else span(pace.tokens, "").strip(),
            )
        )
    widths = [max(len(row[i]) for row in table) for i in range(len(_COLUMNS))]
    return (
        title,
        *(
            "  "
            + "  ".join(
                cell.ljust(width) if i < 2 else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in table
        ),
    )


# Recommendations


def recommendation_data(found: Recommendation) -> dict[str, Any]:
    """A recommendation as JSON has it."""
    from dslint.memory.recommend import config_of

    return {
        "chosen": None if found.chosen is None else _choice(found.chosen),
        "config": None if found.chosen is None else config_of(found.chosen.job),
        "beside_the_config": None if found.chosen is None else outside(found.chosen.job),
        "alternatives": [_choice(choice) for choice in found.alternatives],
        "rejected": [_choice(choice) for choice in found.rejected],
    }


def _choice(choice: Choice) -> dict[str, Any]:
    return {"name": name(choice.job), "why": choice.why, **data(choice.estimate)}


def recommendation_lines(found: Recommendation) -> tuple[str, ...]:
    """A recommendation for people."""
    rows: list[str] = []
    best = found.chosen
    if best is None:
        rows.append("recommend: nothing fits")
        assumed = found.rejected[0].job.assumptions if found.rejected else ()
    else:
        job = best.job
        rows += [
            f"recommend: {name(job)}, micro batch {job.micro_batch}, {job.accumulation} accumulation",
            f"  for {subject(job)}",
            f"  {headline(best.estimate)}{_pace(best.speed)}",
        ]
        if best.estimate.host and job.host_memory is None:
            rows.append(
                f"  needs {best.estimate.host / GIB:.0f} GiB of host memory a node (--host-memory checks it)"
            )
        rows.append(f"  beside the config: {outside(job)}")
        assumed = job.assumptions
    for title, choices in (("also fits", found.alternatives), ("rejected", found.rejected)):
        if choices:
            rows += ["", f"  {title}:"]
            rows += [f"    {name(c.job)}, micro batch {c.job.micro_batch}: {_short(c)}" for c in choices]
    if assumed:
        rows += ["", "  assumed:", *(f"    - {words}" for words in assumed)]
    return tuple(rows)


def _short(choice: Choice) -> str:
    if choice.verdict not in (FITS, TIGHT) or not choice.speed:
        return choice.why
    host = f", {choice.estimate.host / GIB:.0f} GiB host" if choice.job.offload_optimizer != NONE else ""
    return f"{choice.estimate.device / GIB:.1f} GiB{host}; {choice.why}"
