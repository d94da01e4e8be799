"""`--verify` from flags to reports: lint, start, watch, compare. The command line prints what it returns."""

from __future__ import annotations

import argparse
import json
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from dslint.config import Config
from dslint.errors import UsageError
from dslint.finding import FileReport, Section
from dslint.formats import read_bytes
from dslint.lint import Options, chosen, configure, in_order, lint, prepare
from dslint.rules import Rule
from dslint.verify import text
from dslint.verify.compare import Gates, Judge, memory_used, summarize
from dslint.verify.diagnose import Failure, diagnose
from dslint.verify.fill import Arguments, Change, fill, for_cpu, quiet
from dslint.verify.launch import Outcome, Place, find_job, launch, visible_gpus
from dslint.verify.plan import Plan, Shape
from dslint.verify.predicted import Forecast, forecast, rows
from dslint.verify.shape import named, of_decoder, of_file

INSTALL = "pip install 'deepspeed-lint[verify]', in a clone '.[verify]'"
STAGES = (0, 1, 2, 3)


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked for besides the config: where, with which model, for how long, under which limits."""

    device: str
    place: Place
    shape: Shape
    model_name: str
    hf_config: str
    module: str
    sequence: int
    steps: int
    micro_batch: int | None
    accumulation: int | None
    checkpointing: bool
    attention: str
    zero_init: bool
    memory_limit: int
    timeout: float
    gates: Gates
    force: bool
    notes: tuple[str, ...]
    model: Any = None
    """The shape as the predictor knows it; None where nobody knows it (--module)."""


@dataclass(slots=True)
class Verified:
    """One verification: its report, its summary (None: not run), and why it could not be done."""

    report: FileReport
    summary: dict[str, Any] | None = None
    why: str = ""
    cannot: str = ""

    def row(self, name: str) -> dict[str, Any]:
        """Its row in a table of several."""
        found = [{"code": f.code, "message": f.message} for f in self.report.findings]
        return {"name": name, "summary": self.summary, "why": self.why, "findings": found}


def verify(
    args: argparse.Namespace,
    work: list[tuple[str, bytes, list[Options]]],
    rules: list[Rule],
    progress: Callable[[str], None],
) -> tuple[list[FileReport], list[str], list[str]]:
    """Verifies every input; the reports, what could not be verified and why, and what else there is to tell.

    Inside a job the first rank reports for all; the others only tell why they failed. Raises UsageError.
    """
    request = requested(args, os.environ)
    runs = Runs(request, rules, progress)
    reports: list[FileReport] = []
    cannot: list[str] = []
    for name, raw, targets in work:
        runs.options = targets[0]._replace(gpus=request.place.ranks)
        verified = runs.one(raw, name)
        reports.append(verified.report)
        cannot += [verified.cannot] if verified.cannot else []
        table: list[dict[str, Any]] = []
        if args.against:
            table = [verified.row(name), runs.against(args.against, reports, cannot)]
        elif args.compare_stages:
            table = runs.stages(raw, name, verified)
        if table:
            brief = bool(args.against)  # the other file has a report of its own, another stage has none
            data = [{**row, "summary": _summary(row["summary"], brief)} for row in table]
            reports[-1].sections.append(Section("compared", {"configs": data}, text.table(table)))
    if request.place.rank:
        return [], cannot, runs.told
    return reports, cannot, runs.told


def requested(args: argparse.Namespace, environment: Mapping[str, str]) -> Request:
    """The request that flags and environment make. Raises UsageError."""
    for package in ("torch", "deepspeed"):
        if find_spec(package) is None:
            raise UsageError(f"--verify runs DeepSpeed, and {package} is not installed: {INSTALL}")
    if sum(bool(x) for x in (args.hf_config, args.module, args.model)) > 1:
        raise UsageError("give one of --model, --hf-config and --module")
    if args.module and args.module.count(":") != 1:
        raise UsageError("--module wants package.module:function")
    gpus = visible_gpus(environment)
    device = args.device or ("cuda" if gpus else "cpu")
    place = _place(args, environment, device, gpus)
    notes: list[str] = []
    shape, name, model = Shape(), "", None
    if args.hf_config:
        path = Path(args.hf_config)
        if not (path / "config.json" if path.is_dir() else path).is_file():
            raise UsageError(f"--hf-config {args.hf_config}: no such file")
        name = f"the model of {args.hf_config}"
        model = of_file(str(path.resolve()))
    elif args.module:
        name = f"the module that {args.module} makes"
    elif args.model:
        model, shape, more = named(args.model)
        name = shape.name
        notes += more
    else:
        name, model = shape.name, of_decoder(shape)
        notes.append("no --model given: figures are those of a small model, not of yours")
    return Request(
        device=device,
        place=place,
        shape=shape,
        model_name=name,
        hf_config=str(Path(args.hf_config).resolve()) if args.hf_config else "",
        module=args.module or "",
        sequence=args.seq_len or (2048 if args.model or args.hf_config else 128),
        steps=args.steps or (5 if args.against or args.compare_stages else 1),
        micro_batch=args.micro_batch,
        accumulation=args.gradient_accumulation,
        checkpointing=args.checkpointing != "off",
        attention=args.attention or "flash",
        zero_init=not args.no_zero_init,
        memory_limit=args.memory_limit or 0,
        timeout=args.timeout or 900.0,
        gates=Gates(args.max_memory, args.min_throughput),
        force=args.force,
        notes=tuple(notes),
        model=model,
    )


def _place(args: argparse.Namespace, environment: Mapping[str, str], device: str, gpus: int) -> Place:
    if args.hostfile:
        slots = hostfile_slots(Path(args.hostfile))
        if args.gpus not in (None, slots):
            raise UsageError(f"{args.hostfile} has {slots} slots, --gpus is {args.gpus}")
        return Place(slots, hostfile=str(Path(args.hostfile).resolve()))
    job = find_job(environment)
    if job is not None:
        if args.gpus not in (None, job.ranks):
            raise UsageError(f"this job has {job.ranks} ranks, --gpus is {args.gpus}")
        return job
    ranks = args.gpus or (gpus if device == "cuda" else 1) or 1
    if device == "cuda" and ranks > gpus:
        raise UsageError(f"could not verify: {ranks} GPUs asked, {gpus} visible; --device cpu needs none")
    return Place(ranks)


def hostfile_slots(path: Path) -> int:
    """All slots of a hostfile ("node1 slots=8"). Raises UsageError."""
    try:
        content = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"--hostfile {path}: {getattr(error, 'strerror', None) or 'not a text file'}"
        ) from None
    total = 0
    for line in content.splitlines():
        fields = line.split("#")[0].split()
        if not fields:
            continue
        slots = next((f.removeprefix("slots=") for f in fields[1:] if f.startswith("slots=")), "")
        if not slots.isascii() or not slots.isdigit():
            raise UsageError(f"--hostfile {path}: {line.strip()[:60]!r} has no slots=N")
        total += int(slots)
    if not total:
        raise UsageError(f"--hostfile {path}: it names no host")
    return total


class Runs:
    """Verifications under one request, one after the other."""

    options: Options
    """What the file at hand is judged for."""

    def __init__(self, request: Request, rules: list[Rule], progress: Callable[[str], None]) -> None:
        self.request, self.rules, self.progress = request, rules, progress
        self.count = 0
        self.told: list[str] = []

    def one(self, raw: bytes, name: str) -> Verified:
        """Verifies one file."""
        report = lint(raw, name, self.options, self.rules)
        errors = [f for f in report.findings if f.severity == "error"]
        if report.document.root is None or (errors and not self.request.force):
            codes = ", ".join(dict.fromkeys(f.code for f in errors))
            return Verified(report, None, f"not run: {codes} (--force runs it all the same)")
        config = prepare(raw, name, self.options)
        if not config.data:
            return Verified(
                report, None, "not run", f"{name}: could not verify: there is no DeepSpeed config in it"
            )
        return self.run(report, config)

    def run(self, report: FileReport, config: Config) -> Verified:
        """Runs a config that was linted, and adds to its report what came of it."""
        request = self.request
        plan, changes = planned(request, config)
        outcome = launch(
            plan, self._place(), request.timeout, lambda stage: self.progress(self._said(report, stage))
        )
        self.count += 1
        heard = [r for r in self.rules if self._hears(r)]
        judge = Judge(heard, config)
        if request.place.rank and outcome.ending == "done":
            return Verified(report)
        if outcome.ending == "done" and outcome.results():
            summary = self._trained(outcome, report, judge, changes, plan)
            verified = Verified(report, summary)
        else:
            failure = diagnose(outcome, request.timeout)
            summary = self._failed(outcome, failure, report, judge, changes, plan)
            verified = Verified(report, summary, f"{text.KIND[failure.kind]}: {failure.message}")
            if request.place.rank and failure.verdict:
                self.told.append(f"{report.document.name}: rank {request.place.rank}: {failure.message}")
            if not failure.verdict:
                log = f" (log: {outcome.log})" if outcome.log else ""
                verified.cannot = f"{report.document.name}: could not verify: {failure.message}{log}"
        report.findings = in_order([*report.findings, *judge.findings])
        report.sections.append(Section("verify", summary, text.lines(summary)))
        return verified

    def _hears(self, rule: Rule) -> bool:
        options = self.options
        return (not options.select or chosen(rule, options.select)) and not chosen(rule, options.ignore)

    def _place(self) -> Place:
        """Where the next run takes place: inside a job, with a rendezvous of its own."""
        place = self.request.place
        if place.rank is None or not self.count:
            return place
        port = place.environment.get("MASTER_PORT") or os.environ.get("MASTER_PORT", "")
        if not port.isdigit():
            return place
        own = {"MASTER_PORT": str(int(port) + self.count), "TORCHELASTIC_USE_AGENT_STORE": "False"}
        return replace(place, environment={**place.environment, **own})

    def _said(self, report: FileReport, stage: str) -> str:
        return f"{report.document.name}: {stage}"

    def _summary(self, changes: list[Change], plan: Plan) -> dict[str, Any]:
        return {
            "device": self.request.device,
            "processes": self.request.place.ranks,
            "model_name": self.request.model_name,
            "sequence": plan.sequence,
            "filled": {c.path: finite(c.value) for c in changes if c.filled},
            "changes": [
                {"key": c.path, "value": finite(c.value), "why": c.why} for c in changes if not c.filled
            ],
            "notes": list(self.request.notes),
        }

    def _trained(
        self, outcome: Outcome, report: FileReport, judge: Judge, changes: list[Change], plan: Plan
    ) -> dict[str, Any]:
        results = outcome.results()
        summary = {**summarize(results, self.request.device), **self._summary(changes, plan)}
        summary["seconds"] = round(outcome.seconds, 1)
        first = results[min(results)]
        filled = self._filled_config(first["config"], report)
        release = str(first["versions"]["deepspeed"])
        if release == self.options.release:
            judge.promises(first["engine"], filled)
        else:
            summary["notes"].append(f"judged for DeepSpeed {self.options.release}, run by {release}")
        if summary["device"] == "cuda":
            spare = min(float(r["card_gib"]) for r in summary["ranks"]) - memory_used(summary)
            if self.request.memory_limit:
                spare = self.request.memory_limit / (1 << 30) - memory_used(summary)
            summary["spare_gib"] = round(spare, 3)
        foreseen = self._forecast(filled, plan)
        summary["predicted"] = foreseen.data if foreseen is not None else {}
        summary["compared"] = rows(foreseen, summary["ranks"], summary["device"])
        judge.predictions(summary["compared"])
        judge.trained(summary, report.findings, self.request.gates)
        return summary

    def _failed(
        self,
        outcome: Outcome,
        failure: Failure,
        report: FileReport,
        judge: Judge,
        changes: list[Change],
        plan: Plan,
    ) -> dict[str, Any]:
        advice: list[str] = []
        if failure.kind == "memory":
            filled = self._filled_config(plan.config, report)
            foreseen = self._forecast(filled, plan)
            advice = foreseen.advice() if foreseen is not None else list(ADVICE)
        confirms = judge.failure(failure, report.findings, advice)
        return {
            "ok": False,
            **self._summary(changes, plan),
            "seconds": round(outcome.seconds, 1),
            "failure": {
                "kind": failure.kind,
                "phase": failure.phase,
                "rank": failure.rank,
                "message": failure.message,
                "hint": failure.hint,
                "confirms": confirms,
                "log": outcome.log,
            },
            "advice": advice,
        }

    def _filled_config(self, data: Mapping[str, Any], report: FileReport) -> Config:
        """The effective config of what was trained, where nothing is left to a trainer."""
        raw = json.dumps(finite(data)).encode()
        options = self.options._replace(trainer="raw")
        return configure(read_bytes(raw, report.document.name), options)

    def _forecast(self, config: Config, plan: Plan) -> Forecast | None:
        return forecast(config, self.request.model, plan, self.request.place.ranks)

    def against(self, path: str, reports: list[FileReport], cannot: list[str]) -> dict[str, Any]:
        """Verifies the config to compare with; its row of the table."""
        try:
            raw = Path(path).read_bytes()
        except OSError as error:
            raise UsageError(f"--against {path}: {error.strerror}") from None
        verified = self.one(raw, path)
        reports.append(verified.report)
        cannot += [verified.cannot] if verified.cannot else []
        return verified.row(path)

    def stages(self, raw: bytes, name: str, own: Verified) -> list[dict[str, Any]]:
        """The config under each ZeRO stage, its own among them; rows of the table."""
        table = []
        config = prepare(raw, name, self.options)
        for stage in STAGES:
            label = f"stage {stage}"
            if own.summary is not None and config.value(("zero_optimization", "stage")) == stage:
                table.append(own.row(f"{label} (the file)"))
                continue
            variant = json.dumps(with_stage(config.data, stage)).encode()
            table.append(self.one(variant, f"{name}, {label}").row(label))
        return table


ADVICE = (
    "smaller train_micro_batch_size_per_gpu with more gradient_accumulation_steps",
    "activation checkpointing in the model",
    "the next ZeRO stage",
    "offload_optimizer to the cpu",
)
"""What to change when memory runs out and nothing can be predicted, in the usual order."""


def planned(request: Request, config: Config) -> tuple[Plan, list[Change]]:
    """The plan for a config, and every value in it that is not the file's."""
    trainer = config.target.trainer
    arguments = Arguments(request.place.ranks, request.micro_batch, request.accumulation)
    filled = fill(config.data, trainer, arguments, known=lambda path: config.value(path))
    data, left_out = quiet(filled.config)
    changes = [*filled.changes, *left_out]
    if request.device == "cpu":
        data, replaced = for_cpu(data, config.target.release_number)
        changes += replaced
    plan = Plan(
        config=data,
        device=request.device,
        shape=request.shape,
        hf_config=request.hf_config,
        module=request.module,
        sequence=request.sequence,
        steps=request.steps,
        trainer=trainer,
        checkpointing=request.checkpointing,
        attention=request.attention,
        zero_init=request.zero_init,
        fill_hidden=filled.hidden,
        memory_limit=request.memory_limit,
        fault=os.environ.get("DSLINT_VERIFY_FAULT", ""),
    )
    return plan, changes


def with_stage(data: Mapping[str, Any], stage: int) -> dict[str, Any]:
    """A config under another ZeRO stage, without the offloads that stage does not have."""
    out: dict[str, Any] = json.loads(json.dumps(finite(data)))
    if not isinstance(out.get("zero_optimization"), dict):
        out["zero_optimization"] = {}
    zero = out["zero_optimization"]
    zero["stage"] = stage
    if stage < 3:
        zero.pop("offload_param", None)
    if stage < 1:
        zero.pop("offload_optimizer", None)
    return out


def finite(value: Any) -> Any:
    """Plain data without numbers that JSON has no word for."""
    if isinstance(value, dict):
        return {k: finite(v) for k, v in value.items() if not (isinstance(v, float) and not math.isfinite(v))}
    if isinstance(value, (list, tuple)):
        return [finite(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _summary(summary: Mapping[str, Any] | None, brief: bool) -> dict[str, Any] | None:
    """A summary for the table of several configs, or what the table itself shows of it."""
    if summary is None or not summary["ok"]:
        return None if brief or summary is None else dict(summary)
    keys = ("step_seconds", "samples_per_second", "tokens_per_second", "communication_share")
    shown = {key: summary[key] for key in keys} if brief else summary
    return {**shown, "memory_gib": text.tensor_memory(summary)}
