"""One rank of a verification: build, deepspeed.initialize, train, tell. `python -m dslint.verify.worker PLAN`

What it tells are JSON objects, one a line, in rank<R>.jsonl of the plan's folder, or on standard output
after plan.MARK where there is no folder. Each has "rank", "time" (seconds since the epoch) and "event":

    "begin"   pid, host, and the rendezvous' address and port
    "phase"   phase: one of plan.PHASES, as the rank enters it; detail: "step 2 of 5"
    "error"   phase, type, message, where (innermost frame), frames (files of the traceback), cannot (the
              failure is this machine's or the request's, not the config's)
    "result"  what was measured; of rank 0 where the ranks share no folder: "results", those of all ranks
"""

from __future__ import annotations

import contextlib
import copy
import faulthandler
import json
import os
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from dslint.verify.fill import fill_hidden
from dslint.verify.plan import MARK, Plan, read

WATCH = 1.0
"""Seconds between looks at whether the process that asked for the verification is still there."""


class Teller:
    """Writes a rank's lines."""

    def __init__(self, plan: Plan, rank: int) -> None:
        self.rank = rank
        self.phase = "import"
        self.file = None
        if plan.folder:
            self.file = open(os.path.join(plan.folder, f"rank{rank}.jsonl"), "a", encoding="utf-8")  # noqa: SIM115

    def tell(self, event: str, **more: Any) -> None:
        """One line."""
        line = json.dumps({"event": event, "rank": self.rank, "time": time.time(), **more})
        if self.file is not None:
            print(line, file=self.file, flush=True)
        else:
            sys.stdout.write(f"{MARK}{line}\n")
            sys.stdout.flush()

    def enter(self, phase: str, detail: str = "") -> None:
        """The rank begins a phase."""
        self.phase = phase
        self.tell("phase", phase=phase, detail=detail)

    def error(self, error: BaseException, cannot: bool) -> None:
        """The rank failed."""
        frames = traceback.extract_tb(error.__traceback__)
        where = f"{frames[-1].filename}:{frames[-1].lineno} in {frames[-1].name}" if frames else ""
        self.tell(
            "error",
            phase=self.phase,
            type=type(error).__name__,
            message=str(error)[:4000],
            where=where,
            frames=[f"{frame.filename}:{frame.name}" for frame in frames],
            cannot=cannot,
        )


def main() -> NoReturn:
    """The rank's whole life. Ends without interpreter shutdown: a collective's thread may hang there."""
    plan = read(sys.argv[-1])
    rank = int(os.environ.get("RANK", "0"))
    teller = Teller(plan, rank)
    teller.tell(
        "begin",
        pid=os.getpid(),
        host=socket.gethostname(),
        address=os.environ.get("MASTER_ADDR", ""),
        port=os.environ.get("MASTER_PORT", ""),
    )
    watch(plan.parent)
    stacks = open(os.path.join(plan.folder, f"rank{rank}.stacks"), "w") if plan.folder else sys.stderr  # noqa: SIM115
    if hasattr(signal, "SIGUSR1"):
        faulthandler.register(signal.SIGUSR1, file=stacks, all_threads=False)
    signal.signal(signal.SIGTERM, stop)
    code = 1
    try:
        train(plan, teller)
        code = 0
    except Stopped:
        pass
    except BaseException as error:  # noqa: BLE001 (whatever it is, it is the answer)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the launcher ends us for the other rank's failure
        traceback.print_exc()
        teller.error(error, cannot(error))
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


class Stopped(BaseException):
    """The launcher ends this rank. An exception, so that whoever holds a lock lets go of it: the lock of a
    half-built operator would make every later run wait for ever."""


def stop(_: int, __: object) -> NoReturn:
    """The handler of SIGTERM."""
    raise Stopped


def cannot(error: BaseException) -> bool:
    """Whether a failure says nothing about the config."""
    return type(error).__name__ == "Unusable" or (
        isinstance(error, ImportError) and getattr(error, "name", None) in ("torch", "deepspeed")
    )


def watch(parent: int) -> None:
    """Ends this process when the one that asked is gone, even where it was killed."""
    if not parent:
        return

    def look() -> None:
        while True:
            time.sleep(WATCH)
            try:
                os.kill(parent, 0)
            except ProcessLookupError:
                os._exit(1)
            except PermissionError:
                pass

    threading.Thread(target=look, daemon=True).start()


def train(plan: Plan, teller: Teller) -> None:
    """Everything from importing torch to the last measurement."""
    teller.enter("import")
    cuda = plan.device == "cuda"
    if not cuda:
        os.environ["DS_ACCELERATOR"] = "cpu"
    import torch

    from dslint.verify.network import Unusable
    from dslint.verify.traffic import Traffic

    local = int(os.environ.get("LOCAL_RANK", "0"))
    if cuda and not torch.cuda.is_available():
        raise Unusable("no GPU is visible to torch; --device cpu verifies on the CPU")
    if cuda and local >= torch.cuda.device_count():
        asked = os.environ.get("LOCAL_WORLD_SIZE", str(local + 1))
        raise Unusable(f"{asked} GPUs asked on this node, {torch.cuda.device_count()} visible")
    traffic = Traffic()
    traffic.install()
    import deepspeed

    if not cuda:
        cpu_as_stand_in()
    teller.enter("connect")
    if cuda:
        torch.cuda.set_device(local)
    deepspeed.init_distributed(dist_backend="nccl" if cuda else "gloo", verbose=False)
    run = Run(plan, teller, traffic, cuda)
    limit(plan.memory_limit, cuda)
    result = run.all()
    teller.enter("report")
    send(plan, teller, result)
    with contextlib.suppress(Exception):
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()


def cpu_as_stand_in() -> None:
    """Makes the CPU do what a GPU would: fp16 in torch's CPU kernels, and no all-reduce through /dev/shm,
    whose 69 MB segments outlive a killed rank and which gloo does as well."""
    import importlib

    from deepspeed.accelerator import get_accelerator

    type(get_accelerator()).is_fp16_supported = lambda _: True
    backend = importlib.import_module("deepspeed.comm.torch")
    if "build_shm_op" in vars(backend):
        vars(backend)["build_shm_op"] = lambda: None


def limit(size: int, cuda: bool) -> None:
    """Lets this rank allocate no more than so many bytes: of the GPU, else of host memory from here on."""
    if not size:
        return
    if cuda:
        import torch

        total = torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory
        torch.cuda.set_per_process_memory_fraction(min(1.0, size / total))
        return
    import resource

    from dslint.verify.meter import status

    top = status().get("VmData", 0) + size
    resource.setrlimit(resource.RLIMIT_DATA, (top, resource.getrlimit(resource.RLIMIT_DATA)[1]))


def send(plan: Plan, teller: Teller, result: dict[str, Any]) -> None:
    """This rank's result; where the ranks share no folder, rank 0 tells all of them."""
    import torch.distributed as dist

    if plan.folder and os.environ.get("DSLINT_VERIFY_GATHER") != "1":
        teller.tell("result", **result)
        return
    results: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(results, result)
    if teller.rank == 0:
        teller.tell("result", results=results)
    dist.barrier()  # ranks that print share a pipe, and rank 0's line is long
    if teller.rank != 0:
        teller.tell("result")


class Run:
    """Trains one plan on this rank and measures."""

    def __init__(self, plan: Plan, teller: Teller, traffic: Any, cuda: bool) -> None:
        import torch

        from dslint.verify import meter

        self.plan, self.teller, self.traffic, self.cuda = plan, teller, traffic, cuda
        self.torch, self.gauge = torch, meter
        self.meter = meter.Meter(cuda)
        self.device = torch.device("cuda", torch.cuda.current_device()) if cuda else torch.device("cpu")
        self.config = copy.deepcopy(plan.config)
        self.engine: Any = None
        self.trainee: Any = None
        self.samples = 0

    def all(self) -> dict[str, Any]:
        """Builds, initializes, warms up, measures; what there is to tell."""
        plan = self.plan
        before = set(self.gauge.live())
        self.torch.manual_seed(1234)
        with self.meter.phase("init"):
            self.teller.enter("build")
            self.build()
            self.teller.enter("initialize")
            self.initialize()
        loaded = self.gauge.items(self.engine, before)
        first = self.gauge.checksum(self.engine)
        self.teller.enter("warm-up")
        steps: list[dict[str, Any]] = []
        backward: dict[str, Any] = {}

        def look() -> None:
            backward.update(self.gauge.items(self.engine, before))

        warm = self.step(look)
        allocated = {}
        if self.cuda:
            self.torch.cuda.synchronize()
            allocated = {"allocated_steady": self.torch.cuda.memory_allocated()}
        steady = self.gauge.items(self.engine, before)
        for number in range(1, plan.steps + 1):
            self.teller.enter("step", f"step {number} of {plan.steps}")
            steps.append(self.step())
        share = self.shares(steps)
        return {
            "phases": self.meter.phases,
            "items": {"init": loaded, "backward": backward, "steady": steady},
            **allocated,
            "warm_up_seconds": warm["seconds"],
            "steps": steps,
            "share": share,
            "samples_per_step": self.samples,
            "tokens_per_step": self.tokens_per_step(),
            "changed": self.gauge.checksum(self.engine) != first,
            "skipped_steps": int(self.engine.skipped_steps),
            "engine": engine_facts(self.engine, self.torch),
            "config": self.config,
            "model": self.model_facts(),
            "versions": {"torch": self.torch.__version__, "deepspeed": version_of_deepspeed()},
            "gpu": self.gpu(),
        }

    def build(self) -> None:
        """The model, partitioned as it is made in stage 3."""
        import deepspeed

        from dslint.verify import network

        config = deepspeed.DeepSpeedConfig(copy.deepcopy(self.config))
        self.micro = int(config.train_micro_batch_size_per_gpu)
        stage = int(config.zero_config.stage)

        partitioned = stage == 3 and self.plan.zero_init
        self.trainee = network.build(self.plan, self.config, self.micro, self.device, partitioned)
        if self.trainee.hidden is not None:
            fill_hidden(self.config, self.plan.fill_hidden, self.trainee.hidden, self.plan.trainer)

    def initialize(self) -> None:
        """deepspeed.initialize, with an optimizer where the config names none."""
        import deepspeed

        module = self.trainee.module
        trained = [p for p in module.parameters() if p.requires_grad]
        self.engine = deepspeed.initialize(
            model=module,
            model_parameters=trained,
            optimizer=self.client_optimizer(trained),
            config=copy.deepcopy(self.config),
        )[0]
        self.accumulation = int(self.engine.gradient_accumulation_steps())

    def client_optimizer(self, parameters: list[Any]) -> Any:
        """What a script or trainer passes where the config has no optimizer: AdamW, DeepSpeed's own on the
        CPU where the optimizer is offloaded, as accelerate does and as DeepSpeed insists."""
        section = self.config.get("optimizer")
        if isinstance(section, dict) and section.get("type") is not None:
            return None
        zero = self.config.get("zero_optimization")
        zero = zero if isinstance(zero, dict) else {}
        offload = zero.get("offload_optimizer")
        offloads = isinstance(offload, dict) and offload.get("device", "none") in ("cpu", "nvme")
        if (offloads or zero.get("cpu_offload") is True) and self.config.get(
            "zero_force_ds_cpu_optimizer", True
        ):
            from deepspeed.ops.adam import DeepSpeedCPUAdam

            return DeepSpeedCPUAdam(parameters, lr=5e-5)
        return self.torch.optim.AdamW(parameters, lr=5e-5)

    def step(self, before_step: Callable[[], None] | None = None) -> dict[str, Any]:
        """One optimizer step with all its micro-steps, timed; `before_step` runs ahead of the optimizer."""
        engine, plan = self.engine, self.plan
        clock = Clock(self.torch, self.cuda)
        skipped = int(engine.skipped_steps)
        aside = 0.0
        self.traffic.start()
        losses = []
        rate = None
        for micro in range(self.accumulation):
            batch = next(self.trainee.batches)
            with self.meter.phase("forward"), clock.part("forward"):
                loss = self.trainee.loss(engine, batch)
            with self.meter.phase("backward"), clock.part("backward"):
                engine.backward(loss)
            losses.append(loss.detach().float())
            if before_step is not None and micro == self.accumulation - 1:
                began = time.perf_counter()
                before_step()
                aside = time.perf_counter() - began
            self.faults(micro)
            rate = learning_rate(engine)
            with self.meter.phase("step"), clock.part("step"):
                engine.step()
        parts, seconds = clock.read()
        self.traffic.stop()
        self.samples = self.micro * self.accumulation * data_ranks(engine)
        norm = engine.get_global_grad_norm()
        return {
            "seconds": seconds - aside,
            **parts,
            "loss": float(self.torch.stack(losses).mean()),
            "gradient_norm": None if norm is None else float(norm),
            "skipped": int(engine.skipped_steps) > skipped,
            "lr": rate,
            "blocked": self.traffic.blocked,
            "collectives": {
                kind: {"calls": self.traffic.calls[kind], "bytes": self.traffic.bytes[kind]}
                for kind in self.traffic.calls
            },
            "limit": plan.memory_limit,
        }

    def faults(self, micro: int) -> None:
        """What a test asked to go wrong."""
        if not self.plan.fault or micro:
            return
        what, rank, phase = self.plan.fault.split()
        if self.teller.phase != phase or self.teller.rank != int(rank):
            return
        if what == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if what == "hang":
            time.sleep(3600)

    def shares(self, steps: list[dict[str, Any]]) -> dict[str, Any]:
        """The share of communication in a step: seen by the profiler on GPUs, else the time it blocked."""
        if self.torch.distributed.get_world_size() == 1:
            return {"communication": 0.0, "exposed": 0.0, "how": "one process"}
        if self.cuda:
            from dslint.verify.traffic import profiled

            self.teller.enter("step", "a profiled step")
            found = profiled(self.step)
            return {} if found is None else {**found, "how": "profiler"}
        seconds = sum(step["seconds"] for step in steps)
        blocked = sum(step["blocked"] for step in steps)
        return {"exposed": min(1.0, blocked / seconds) if seconds else 0.0, "how": "time blocked"}

    def tokens_per_step(self) -> int | None:
        """Tokens of all ranks in one optimizer step; unknown for the user's own batches."""
        tokens = self.trainee.tokens
        return None if tokens is None else int(tokens * self.accumulation * data_ranks(self.engine))

    def model_facts(self) -> dict[str, Any]:
        """How large the model is."""
        sizes = [
            (getattr(p, "ds_numel", p.numel()), p.requires_grad) for p in self.trainee.module.parameters()
        ]
        return {
            "parameters": sum(size for size, _ in sizes),
            "trainable": sum(size for size, trained in sizes if trained),
            "hidden": self.trainee.hidden,
            "layers": self.trainee.layers,
            "micro_batch": self.micro,
            "accumulation": self.accumulation,
            "sequence": self.plan.sequence,
        }

    def gpu(self) -> dict[str, Any] | None:
        """The GPU: its name and its bytes, and those that others or the driver hold."""
        if not self.cuda:
            return None
        properties = self.torch.cuda.get_device_properties(self.device)
        free, total = self.torch.cuda.mem_get_info()
        outside = total - free - self.torch.cuda.memory_reserved()
        return {"name": properties.name, "total": total, "outside": outside}


class Clock:
    """Seconds of the parts of a step and of the whole; on a GPU by events, which wait for nothing."""

    def __init__(self, torch: Any, cuda: bool) -> None:
        self.torch, self.cuda = torch, cuda
        self.parts: dict[str, list[tuple[Any, Any]]] = {}
        if cuda:
            torch.cuda.synchronize()
        self.began = time.perf_counter()

    @contextlib.contextmanager
    def part(self, name: str) -> Iterator[None]:
        """A block as one run of a part."""
        start = self._now()
        yield
        self.parts.setdefault(name, []).append((start, self._now()))

    def _now(self) -> Any:
        if not self.cuda:
            return time.perf_counter()
        event = self.torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def read(self) -> tuple[dict[str, float], float]:
        """Seconds by part, and of the whole."""
        if self.cuda:
            self.torch.cuda.synchronize()
        whole = time.perf_counter() - self.began
        if self.cuda:
            return {
                name: sum(start.elapsed_time(end) for start, end in spans) / 1000
                for name, spans in self.parts.items()
            }, whole
        return {name: sum(end - start for start, end in spans) for name, spans in self.parts.items()}, whole


def data_ranks(engine: Any) -> int:
    """Ranks that see different data."""
    return int(getattr(engine, "dp_world_size", 0) or engine.world_size)


def learning_rate(engine: Any) -> float | None:
    """The first group's learning rate as it stands."""
    rates = engine.get_lr()
    return float(rates[0]) if rates and isinstance(rates[0], (int, float)) else None


def version_of_deepspeed() -> str:
    """The release that ran."""
    import deepspeed

    return str(deepspeed.__version__).split("+")[0]


def engine_facts(engine: Any, torch: Any) -> dict[str, Any]:
    """What the engine really uses, for the comparison with what the effective config promised."""
    config = engine._config
    facts: dict[str, Any] = {
        "train_batch_size": engine.train_batch_size(),
        "train_micro_batch_size_per_gpu": engine.train_micro_batch_size_per_gpu(),
        "gradient_accumulation_steps": engine.gradient_accumulation_steps(),
        "gradient_clipping": engine.gradient_clipping(),
        "optimizer": type(getattr(engine, "basic_optimizer", None) or engine.optimizer).__name__,
        "wrapper": type(engine.optimizer).__name__,
        "dtype": dtype_of(engine, torch),
    }
    for section, attribute in (("zero_optimization", "zero_config"), ("fp16", "float16_config"),
                               ("bf16", "bfloat16_config")):  # fmt: skip
        model = getattr(config, attribute, None)
        dump = getattr(model, "model_dump", None)
        if dump is not None:
            with contextlib.suppress(Exception):
                facts[section] = json.loads(json.dumps(dump(mode="json", by_alias=True), default=str))
    for name in ("reduce_bucket_size", "allgather_bucket_size"):
        value = getattr(engine.optimizer, name, None)
        if isinstance(value, (int, float)):
            facts[f"optimizer.{name}"] = int(value)
    return facts


def dtype_of(engine: Any, torch: Any) -> str:
    """The dtype of most of the model's floating-point elements."""
    counts: dict[Any, int] = {}
    for p in engine.module.parameters():
        if p.is_floating_point():
            counts[p.dtype] = counts.get(p.dtype, 0) + int(getattr(p, "ds_numel", p.numel()))
    names = {torch.float32: "fp32", torch.float16: "fp16", torch.bfloat16: "bf16"}
    top = max(counts, key=lambda dtype: counts[dtype]) if counts else None
    return names.get(top, str(top))


if __name__ == "__main__":
    main()
