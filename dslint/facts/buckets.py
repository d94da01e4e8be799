"""Communication buckets: keys count elements, memory counts bytes.

Source: deepspeed/runtime/zero/stage_1_and_2.py (setup_buckets) and stage3.py (the IPG bucket), 0.19.8,
with the allocations counted in a run of each case.
"""

from __future__ import annotations

from typing import Any

from dslint.config import Config
from dslint.expression import UNKNOWN
from dslint.facts.precision import BYTES, dtype_bytes
from dslint.facts.registry import fact, once
from dslint.facts.zero import ZERO, bf16_optimizer

RACES = (
    ((0,), (0, 14, 3), (2,)),
    ((0, 13), (0, 14, 3), (1,)),
    ((0, 17, 2), (0, 17, 5), (1, 2)),
)
"""First release, the one that mended it, stages: in between, backward with overlap_comm may refill a bucket
that is still being reduced. Until 0.14.2 nothing waited for the reduction (stage 1 ignored overlap_comm
before 0.13); from 0.17.2 on, clearing a bucket set it back to the same one of its two buffers every time."""

BUCKET = (ZERO, "reduce_bucket_size")


def race_mended(stage: int, release: tuple[int, ...]) -> tuple[int, ...] | None:
    """The release that mended the race which this one has at this stage; None without one."""
    return next((end for start, end, stages in RACES if start <= release < end and stage in stages), None)


@once
def _bucket(config: Config) -> tuple[Any, Any, int] | None:
    """Elements, bytes of one element and number of the reduction buffers; None when unknown or not read."""
    stage, elements = config.value((ZERO, "stage")), config.value(BUCKET)
    overlap, size = config.value((ZERO, "overlap_comm")), dtype_bytes(config)
    contiguous = config.value((ZERO, "contiguous_gradients"))
    if UNKNOWN in (stage, elements, overlap, contiguous) or bf16_optimizer(config) is not False or not stage:
        return None
    if config.value(("torch_autocast", "enabled")) not in (None, False):
        return None  # a bucket for each of two dtypes
    if stage == 3:
        size = BYTES.get(str(config.value(("communication_data_type",))).lower(), size)
    double = stage < 3 and overlap and contiguous
    return None if size is UNKNOWN else (elements, size, 2 if double else 1)


@fact
def reduce_bucket_bytes(config: Config) -> Any:
    """Bytes of device memory that gradients pass through on their way to the reduction, a rank.

    Stages 1 and 2 hold them from the first backward to the end of the reduction, twice with
    overlap_comm; stage 3 holds one for good. With contiguous_gradients false it is the copy that each
    reduction makes.
    """
    bucket = _bucket(config)
    return UNKNOWN if bucket is None else bucket[0] * bucket[1] * bucket[2]


@fact
def reduce_bucket_memory(config: Config) -> Any:
    """The same in words: "2 GB (500,000,000 elements x 2 bytes x 2 buffers)"."""
    bucket = _bucket(config)
    if bucket is None:
        return UNKNOWN
    elements, size, buffers = bucket
    twice = f" x {buffers} buffers" if buffers > 1 else ""
    return f"{elements * size * buffers / 1e9:.3g} GB ({elements:,} elements x {size} bytes{twice})"


@fact
def elements_in_words(config: Config) -> Any:
    """reduce_bucket_size with its digits grouped."""
    elements = config.value(BUCKET)
    return f"{elements:,}" if isinstance(elements, int) else UNKNOWN


@fact
def overlap_race_mended(config: Config) -> Any:
    """The release that mended the race of overlap_comm which this one has at this stage; None without one."""
    stage, release = config.value((ZERO, "stage")), config.target.release_number
    if stage is UNKNOWN or bf16_optimizer(config) is not False:
        return UNKNOWN
    mended = race_mended(stage, release)
    return None if mended is None else ".".join(map(str, mended))
