"""A verification in words, for people. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from dslint.verify.compare import GIB, memory_used
from dslint.verify.diagnose import DOING

KIND = {
    "crash": "it fails",
    "memory": "it runs out of memory",
    "killed": "a process was killed",
    "hang": "it does not finish",
    "cannot": "could not verify",
}


def lines(summary: Mapping[str, Any]) -> tuple[str, ...]:
    """The block of one verification."""
    out = [f"verified: {_verdict(summary)}"]
    out += [_row(name, text) for name, text in _facts(summary)]
    out += _memory(summary)
    return tuple(out)


def _verdict(summary: Mapping[str, Any]) -> str:
    where = "CPU" if summary["device"] == "cpu" else summary.get("gpu") or "GPU"
    processes = summary["processes"]
    many = f"{processes} {where} process{'es' if processes > 1 else ''}"
    if summary["ok"]:
        spare = summary.get("spare_gib")
        room = "" if spare is None else f", fits with {spare:.1f} GiB to spare"
        return f"it trains on {many}{room}"
    failure = summary["failure"]
    rank = "" if failure["rank"] is None else f" (rank {failure['rank']})"
    doing = DOING.get(failure["phase"], "")
    said = f"; {failure['confirms']} said so" if failure.get("confirms") else ""
    return f"{KIND[failure['kind']]} {doing} on {many}{rank}{said}: {failure['message']}"


def _facts(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    if summary.get("model_name"):
        rows.append(("model", _model(summary)))
    if summary.get("filled"):
        values = ", ".join(f"{key} {json.dumps(value)}" for key, value in summary["filled"].items())
        rows.append(("filled", f"as the trainer would: {values}"))
    rows += [("changed", f"{c['key']}{_value(c['value'])}: {c['why']}") for c in summary.get("changes", ())]
    rows += [("note", note) for note in summary.get("notes", ())]
    if not summary["ok"]:
        rows += [("hint", summary["failure"]["hint"])] if summary["failure"].get("hint") else []
        rows += [("advice", advice) for advice in summary.get("advice", ())]
        if summary["failure"].get("log"):
            rows.append(("log", summary["failure"]["log"]))
        return rows
    rows.append(("step", _step(summary)))
    speed = f"{number(summary['samples_per_second'])} samples/s"
    if summary["tokens_per_second"] is not None:
        speed += f", {number(summary['tokens_per_second'])} tokens/s"
    if summary["device"] == "cuda" and summary["tflops_per_gpu"] is not None:
        speed += f", {summary['tflops_per_gpu']:g} TFLOP/s a GPU"
    rows.append(("speed", speed))
    if summary["processes"] > 1:
        rows.append(("communication", _communication(summary)))
    rows.append(("training", _training(summary)))
    return rows


def _model(summary: Mapping[str, Any]) -> str:
    model = summary.get("model")
    if not model:
        return str(summary["model_name"])
    batch = f"micro batch {model['micro_batch']} x {model['accumulation']} accumulation steps"
    size = f"{count(model['parameters'])} parameters, sequence {model['sequence']}"
    return f"{summary['model_name']}: {size}, {batch}"


def _step(summary: Mapping[str, Any]) -> str:
    parts = ", ".join(
        f"{name} {summary[f'{name}_seconds']:g}" for name in ("forward", "backward", "optimizer")
    )
    steps = summary["steps"]
    how = "1 step" if steps == 1 else f"median of {steps} steps"
    return f"{summary['step_seconds']:g} s ({parts}; {how}; warm-up {summary['warm_up_seconds']:g})"


def _communication(summary: Mapping[str, Any]) -> str:
    moved = ", ".join(
        f"{kind} {c['calls']} x, {amount(c['bytes'])}" for kind, c in sorted(summary["collectives"].items())
    )
    share, exposed = summary["communication_share"], summary["exposed_communication_share"]
    if share is None:
        return f"{moved or 'none'}; the profiler could not tell its share"
    if summary["communication_how"] == "time blocked":
        return f"{moved or 'none'}; {share:.0%} of a step waits for it (gloo; says nothing about NCCL)"
    return f"{moved or 'none'}; {share:.0%} of a step, {exposed or 0.0:.0%} not hidden"


def _training(summary: Mapping[str, Any]) -> str:
    loss = summary["loss"]
    parts = ["loss not finite" if loss is None else f"loss {loss:g}"]
    if summary["gradient_norm"] is not None:
        parts.append(f"gradient norm {summary['gradient_norm']:g}")
    if summary["skipped_steps"]:
        dynamic = "" if summary["loss_scale"] else ", the loss scale comes down by itself"
        parts.append(f"{summary['skipped_steps']} steps skipped for overflow{dynamic}")
    if summary["parameters_changed"]:
        parts.append("weights changed")
    else:
        parts.append("weights unchanged" + (": the learning rate is 0" if summary["lr"] == 0 else ""))
    parts.append(f"{summary['optimizer']}, {summary['dtype']}")
    return ", ".join(parts)


def _memory(summary: Mapping[str, Any]) -> list[str]:
    if not summary["ok"]:
        return []
    ranks = summary["ranks"]
    rows: list[Sequence[str]] = [
        (row["what"], amount(row["measured_bytes"]), _predicted(row), _error(row))
        for row in summary.get("compared", ())
    ]
    out = []
    if summary["device"] == "cuda":
        fullest = max(ranks, key=lambda r: float(r["device_total_gib"]))
        out.append(
            _row(
                "memory",
                f"rank {fullest['rank']}: allocated {fullest['allocated_peak_gib']:.2f} GiB at most, "
                f"{fullest['allocated_steady_gib']:.2f} between steps; "
                f"reserved {fullest['reserved_peak_gib']:.2f}; "
                f"on the device {fullest['device_total_gib']:.2f} of {fullest['card_gib']:.2f}",
            )
        )
        peaks = ", ".join(
            f"{name} {figures['allocated_peak_gib']:.2f}" for name, figures in fullest["phases"].items()
        )
        out.append(_row("peaks", f"allocated GiB by phase: {peaks}"))
        host = max(float(r["host_rss_peak_gib"]) for r in ranks)
        pinned = max(float(r.get("pinned_gib", 0.0)) for r in ranks)
        out.append(_row("host", f"{host:.2f} GiB at most in a process, {pinned:.2f} of it pinned"))
    else:
        out.append(_row("memory", f"{memory_used(summary):.2f} GiB of host memory at most in a process; "
                                  "no claim about GPUs"))  # fmt: skip
    if rows:
        head = ("tensors of a rank", "measured", "predicted", "error")
        wide = [max(len(row[i]) for row in (head, *rows)) for i in range(4)]
        for row in (head, *rows):
            cells = [row[0].ljust(wide[0]), *(row[i].rjust(wide[i]) for i in range(1, 4))]
            out.append(f"  {'  '.join(cells)}".rstrip())
    return out


def _predicted(row: Mapping[str, Any]) -> str:
    return "" if row["predicted_bytes"] is None else amount(row["predicted_bytes"])


def _error(row: Mapping[str, Any]) -> str:
    return "" if row["error"] is None else f"{row['error']:+.1%}"


def _row(name: str, text: str) -> str:
    return f"  {name:<14}{text}"


def _value(value: Any) -> str:
    return "" if value is None else f" = {value}"


def table(rows: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Several verifications side by side, each as a ratio to the first that trained."""
    base = next((row["summary"] for row in rows if row["summary"] and row["summary"]["ok"]), None)
    out = [
        "compared:",
        f"  {'config':<24}{'step s':>10}{'ratio':>8}{'samples/s':>12}{'memory GiB':>12}{'ratio':>8}",
    ]
    for row in rows:
        name, summary = str(row["name"]), row["summary"]
        if summary is None or not summary["ok"] or base is None:
            out.append(f"  {name:<24}  {row['why']}")
            continue
        memory, first = tensor_memory(summary), tensor_memory(base)
        seconds = summary["step_seconds"]
        out.append(
            f"  {name:<24}{seconds:>10.4g}{_ratio(seconds, base['step_seconds'])}"
            f"{summary['samples_per_second']:>12.4g}{memory:>12.4g}{_ratio(memory, first)}"
        )
    return tuple(out)


def tensor_memory(summary: Mapping[str, Any]) -> float:
    """GiB that tell two configs apart: the allocator's peak on a GPU, on the CPU the tensors alive before the
    optimizer's step."""
    if summary["device"] == "cuda":
        return max(float(rank["allocated_peak_gib"]) for rank in summary["ranks"])
    alive = [rank["tensors_bytes"]["backward"].get("host", {}) for rank in summary["ranks"]]
    return float(max(sum(items.values()) for items in alive) / GIB)


def _ratio(value: float, base: float) -> str:
    return f"{value / base:>8.2f}" if base else f"{'-':>8}"


def count(number_of: int) -> str:
    """1234567 as 1.23 M."""
    for unit, size in (("B", 1e9), ("M", 1e6), ("k", 1e3)):
        if number_of >= size:
            return f"{number_of / size:.3g} {unit}"
    return str(number_of)


def amount(size: float) -> str:
    """Bytes with a unit of powers of 1024."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            return f"{size:.3g} {unit}"
        size /= 1024
    return ""


def number(value: float) -> str:
    """A rate as people read it: 12,345 or 1.234."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"
