"""What was measured, put beside what was predicted and promised, and what that makes of the verdict. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from dslint.config import Config
from dslint.expression import UNKNOWN
from dslint.facts import Facts
from dslint.finding import Finding
from dslint.rules import Rule, emit
from dslint.verify.diagnose import DOING, Failure

GIB = 1 << 30
TOLERANCE = 0.1
"""Relative error beyond which a prediction counts as wrong; published runs scatter by as much."""
SMALL = 64 << 20
"""Bytes below which an error is nobody's concern: rounding to blocks, counters, alignment."""
BOUND = 0.3
"""Share of exposed communication in a step above which a run counts as bound by it."""

CRASHES = ("config", "initialize", "step")
"""Phases of findings that a run of a step meets."""


@dataclass(frozen=True, slots=True)
class Gates:
    """Limits that make a verification pass or fail. None: no limit."""

    memory: int | None = None
    throughput: float | None = None


def summarize(results: Mapping[int, Mapping[str, Any]], device: str) -> dict[str, Any]:
    """The measurements as the JSON report has them. `results`: what each rank told."""
    ranks = sorted(results)
    first = results[ranks[0]]
    steps = len(first["steps"])
    slowest = [max(results[r]["steps"][i]["seconds"] for r in ranks) for i in range(steps)]
    seconds = median(slowest)
    samples = first["samples_per_step"] / seconds
    tokens = first["tokens_per_step"]
    model = first["model"]
    last = first["steps"][-1]
    exposed = [results[r]["share"].get("exposed") for r in ranks]
    share = [results[r]["share"].get("communication") for r in ranks]
    summary: dict[str, Any] = {
        "ok": True,
        "device": device,
        "gpu": first["gpu"]["name"] if first["gpu"] else None,
        "processes": len(ranks),
        "versions": first["versions"],
        "model": model,
        "steps": steps,
        "step_seconds": rounded(seconds),
        "warm_up_seconds": rounded(max(results[r]["warm_up_seconds"] for r in ranks)),
        **{
            f"{name}_seconds": rounded(
                median(max(results[r]["steps"][i][part] for r in ranks) for i in range(steps))
            )
            for name, part in (("forward", "forward"), ("backward", "backward"), ("optimizer", "step"))
        },
        "samples_per_second": rounded(samples),
        "tokens_per_second": None if tokens is None else rounded(tokens / seconds),
        "tflops_per_gpu": tflops(model, tokens, seconds, len(ranks)),
        "communication_share": _highest(share if any(s is not None for s in share) else exposed),
        "exposed_communication_share": _highest(exposed),
        "communication_how": first["share"].get("how"),
        "collectives": last["collectives"],
        "loss": _finite(last["loss"]),
        "loss_finite": all(math.isfinite(step["loss"]) for r in ranks for step in results[r]["steps"]),
        "gradient_norm": _finite(last["gradient_norm"]),
        "skipped_steps": first["skipped_steps"],
        "loss_scale": first["engine"].get("fp16", {}).get("loss_scale"),
        "lr": max((step["lr"] for step in first["steps"] if step["lr"] is not None), default=None),
        "parameters_changed": all(results[r]["changed"] for r in ranks),
        "optimizer": first["engine"]["optimizer"],
        "dtype": first["engine"]["dtype"],
        "ranks": [_rank(rank, results[rank]) for rank in ranks],
    }
    return summary


def _rank(rank: int, result: Mapping[str, Any]) -> dict[str, Any]:
    phases = {
        name: {f"{key}_gib": gib(value) for key, value in figures.items()}
        for name, figures in result["phases"].items()
    }
    out: dict[str, Any] = {"rank": rank}
    for key in ("allocated_peak", "reserved_peak", "device_used", "host_rss_peak"):
        values = [figures[key] for figures in result["phases"].values() if key in figures]
        if values:
            out[f"{key}_gib"] = gib(max(values))
    if "allocated_steady" in result:
        out["allocated_steady_gib"] = gib(result["allocated_steady"])
    if result["gpu"]:
        out["device_total_gib"] = gib(device_peak(result))
        out["card_gib"] = gib(result["gpu"]["total"])
    pinned = sum(result["items"]["steady"]["pinned"].values())
    if result["gpu"]:
        out["pinned_gib"] = gib(pinned)
    out["phases"] = phases
    out["tensors_bytes"] = {
        when: {where: items for where, items in kinds.items() if items}
        for when, kinds in result["items"].items()
    }
    return out


def device_peak(result: Mapping[str, Any]) -> int:
    """What nvidia-smi would have shown at most: the reserved peak and what lies outside the allocator."""
    reserved = max(figures.get("reserved_peak", 0) for figures in result["phases"].values())
    outside = result["gpu"]["outside"] if result["gpu"] else 0
    return int(reserved + max(0, outside))


def tflops(model: Mapping[str, Any], tokens: int | None, seconds: float, ranks: int) -> float | None:
    """10^12 floating-point operations of the model a second and GPU: 6 P, and 6 L h s for causal attention,
    a token; what recomputation adds is not counted."""
    if tokens is None or not seconds:
        return None
    per_token = 6 * model["parameters"]
    if model["layers"] and model["hidden"]:
        per_token += 6 * model["layers"] * model["hidden"] * model["sequence"]
    return rounded(tokens * per_token / seconds / ranks / 1e12)


def gib(size: float) -> float:
    """Bytes as GiB."""
    return round(size / GIB, 6)


def rounded(value: float) -> float:
    """Four significant figures."""
    return float(f"{value:.4g}")


def _highest(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return rounded(max(known)) if known else None


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else rounded(value)


def memory_used(summary: Mapping[str, Any]) -> float:
    """GiB of the fullest rank: of its GPU as nvidia-smi shows it, else of host memory."""
    return max(float(r.get("device_total_gib", r.get("host_rss_peak_gib", 0.0))) for r in summary["ranks"])


def differences(facts: Mapping[str, Any], config: Config) -> Iterator[str]:
    """Where the engine uses another value than the effective config promised."""
    for path in config.leaves():
        if path[0] not in ("zero_optimization", "fp16", "bf16", "gradient_clipping"):
            continue
        promised = config.value(path)
        found: Any = facts
        for key in path:
            found = found[key] if isinstance(found, Mapping) and key in found else UNKNOWN
        if UNKNOWN in (promised, found) or promised is None or found is None:
            continue
        if promised != found:
            yield f"{'.'.join(map(str, path))}: promised {show(promised)}, used {show(found)}"
    if not isinstance(config.written(("zero_optimization", "zenflow")), dict):  # it replaces both
        yield from _differences_of_engine(facts, config)
    promised = config.value(("zero_optimization", "reduce_bucket_size"))
    found = facts.get("optimizer.reduce_bucket_size")
    if isinstance(promised, int) and isinstance(found, int) and promised != found:
        yield f"the optimizer's reduce bucket: promised {promised}, used {found}"


def _differences_of_engine(facts: Mapping[str, Any], config: Config) -> Iterator[str]:
    """The same of batch, optimizer and dtype."""
    for key in ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"):
        promised, found = config.value((key,)), facts.get(key)
        if isinstance(promised, int) and found is not None and promised != found:
            yield f"{key}: promised {promised}, used {found}"
    known = Facts(config)
    for name, key in (("optimizer_class", "optimizer"), ("precision", "dtype")):
        promised = known[name]
        if promised in (UNKNOWN, "fp32"):  # without a section DeepSpeed leaves the module's own dtype
            continue
        if key in facts and promised != facts[key]:
            yield f"{key}: promised {promised}, used {facts[key]}"


def show(value: Any) -> str:
    """A value as JSON has it."""
    return json.dumps(value, default=str)


class Judge:
    """Makes findings of what a verification showed. They stand at the config's beginning: they are about
    the whole of it."""

    def __init__(self, rules: Iterable[Rule], config: Config) -> None:
        self.rules = {rule.name: rule for rule in rules}
        self.config = config
        self.findings: list[Finding] = []

    def add(self, name: str, message: str, cure: str = "", phase: str = "") -> None:
        """A finding of the rule of that name, where it is heard."""
        rule = self.rules.get(name)
        if rule is None:
            return
        place = self.config.document.nearest(self.config.base)
        finding = emit(rule, place, "", message, cure)
        self.findings.append(finding._replace(phase=phase or rule.phase))

    def failure(self, failure: Failure, static: Iterable[Finding], advice: Iterable[str]) -> str:
        """The finding of a failed run, unless an error in the file already says it; that is returned."""
        where = DOING.get(failure.phase, "")
        cure = "; ".join(advice)
        if failure.kind == "memory":
            self.add(
                "verified-out-of-memory", f"out of memory {where}: {failure.message}", cure, failure.found
            )
        elif failure.kind in ("killed", "hang"):
            message = f"rank {failure.rank} {failure.message}, {where}"
            self.add("verified-unfinished", message, failure.hint, failure.found)
        elif failure.kind == "crash":
            said = [f for f in static if f.severity == "error" and f.phase in CRASHES]
            if said:
                return said[0].code
            self.add("verified-crash", f"it fails {where}: {failure.message}", cure, failure.found)
        return ""

    def trained(self, summary: Mapping[str, Any], static: Iterable[Finding], gates: Gates) -> None:
        """The findings of a run that trained."""
        wrong = [f for f in static if f.severity == "error" and f.phase in CRASHES]
        for code in dict.fromkeys(f.code for f in wrong):
            self.add(
                "error-not-confirmed",
                f"{code} says that it cannot train, and it did on this machine",
                "please report it with the config: the rule is wrong, or the CPU hid the failure",
            )
        self._learned(summary)
        share = summary["exposed_communication_share"]
        if summary["device"] == "cuda" and share is not None and share > BOUND:
            self.add(
                "communication-bound",
                f"{share:.0%} of a step waits for communication; above {BOUND:.0%} a step is bound by it",
                "more micro-steps per step, a lower stage if it fits, larger micro batches, or a faster link",
            )
        used = memory_used(summary)
        if gates.memory is not None and used > gates.memory / GIB:
            self.add(
                "memory-gate", f"a rank needs {used:.2f} GiB; --max-memory is {gates.memory / GIB:.2f} GiB"
            )
        rate = summary["samples_per_second"]
        if gates.throughput is not None and rate < gates.throughput:
            self.add("throughput-gate", f"{rate:g} samples/s; --min-throughput is {gates.throughput:g}")

    def _learned(self, summary: Mapping[str, Any]) -> None:
        if not summary["loss_finite"]:
            self.add("nothing-learned", "the loss is not finite from the first steps on random data")
        elif not summary["parameters_changed"] and summary["skipped_steps"]:
            if summary["loss_scale"]:  # a dynamic one comes down by itself, a step at a time
                self.add(
                    "nothing-learned",
                    f"all {summary['skipped_steps']} steps were skipped: the fixed loss scale "
                    f"{summary['loss_scale']:g} overflows",
                    "remove fp16.loss_scale, or lower it",
                )
        elif not summary["parameters_changed"] and summary["lr"] != 0:
            self.add("nothing-learned", "no weight changed in the steps although the learning rate is not 0")

    def promises(self, facts: Mapping[str, Any], config: Config) -> None:
        """Where DeepSpeed used another value than dslint said it would."""
        for difference in differences(facts, config):
            self.add(
                "promise-broken", difference, "this is a fault of dslint; please report it with the config"
            )

    def predictions(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Predictions that are off by more than TOLERANCE."""
        for row in rows:
            measured, predicted = row["measured_bytes"], row["predicted_bytes"]
            if predicted is None or abs(measured - predicted) < SMALL:
                continue
            if abs(predicted - measured) > TOLERANCE * measured:
                error = f" ({row['error']:+.0%})" if measured else ""
                self.add(
                    "prediction-off",
                    f"{row['what']}: {gib(predicted):.2f} GiB predicted, {gib(measured):.2f} measured{error}",
                    "this is a fault of dslint's memory model; please report it with the config",
                )
