"""Times all_reduce of torch.distributed over several back ends, in turns, in one run.

    torchrun --nproc-per-node 4 -m terrace.bench --backends terrace gloo --sizes 8 4KiB 32MiB

Each round measures every back end once at every size; the time of a call is that of its slowest rank. Prints medians.
"""
from __future__ import annotations

import argparse
import os
import re
import statistics
import sys
import time
from typing import Any

_UNITS = {"": 1, "K": 1 << 10, "KiB": 1 << 10, "M": 1 << 20, "MiB": 1 << 20, "G": 1 << 30, "GiB": 1 << 30}


def size_of(text: str) -> int:
    """The bytes that a size says.

    >>> size_of("4KiB"), size_of("8")
    (4096, 8)
    """
    found = re.fullmatch(r"(\d+) ?(\w*)", text)
    if found is None or found[2] not in _UNITS:
        raise argparse.ArgumentTypeError(f"{text}: write a number and one of {', '.join(filter(None, _UNITS))}")
    return int(found[1]) * _UNITS[found[2]]


def text_of(size: int) -> str:
    """A size as people write it.

    >>> text_of(33554432), text_of(100)
    ('32 MiB', '100 B')
    """
    for unit, many in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size % many == 0 and size:
            return f"{size // many} {unit}"
    return f"{size} B"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m terrace.bench", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--backends", nargs="+", default=["terrace", "gloo"], help="the first one is compared with")
    parser.add_argument("--sizes", nargs="+", type=size_of, default=[8, 4096, 65536, 1 << 20, 32 << 20], metavar="SIZE")
    parser.add_argument("--rounds", type=int, default=7, help="how often everything is measured")
    return parser.parse_args()


def _time_of(call: Any, repeats: int) -> float:
    begun = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - begun) / repeats


def main() -> int:
    """Measures and prints; 1 if a result is wrong."""
    arguments = _arguments()
    import torch
    import torch.distributed as dist

    import terrace.torch  # noqa: F401
    if "RANK" not in os.environ:
        sys.exit("terrace.bench: start it by torchrun --nproc-per-node N -m terrace.bench")
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    groups = {name: dist.new_group(backend=name) for name in arguments.backends}
    times: dict[tuple[int, str], list[float]] = {(s, name): [] for s in arguments.sizes for name in groups}
    wrong = False
    for number in range(arguments.rounds + 1):  # the first one is not counted
        for bytes_of, name in times:
            data = torch.ones(max(1, bytes_of // 4))
            group, repeats = groups[name], 50 if bytes_of <= 65536 else 1
            dist.all_reduce(data, group=group)
            wrong |= not bool((data == size).all())
            data.fill_(0)
            dist.barrier()
            longest = torch.tensor([_time_of(lambda: dist.all_reduce(data, group=group), repeats)])
            dist.all_reduce(longest, dist.ReduceOp.MAX)
            if number > 0:
                times[bytes_of, name].append(longest.item())
    if rank == 0:
        print(f"all_reduce of float32 over {size} ranks, medians of {arguments.rounds} rounds [us]")
        compared = [f"{name}/{arguments.backends[0]}" for name in list(groups)[1:]]
        print("".join(f"{word:>14}" for word in ["size", *groups, *compared]))
        for bytes_of in arguments.sizes:
            medians = [1e6 * statistics.median(times[bytes_of, name]) for name in groups]
            ratios = [f"{m / medians[0]:.2f}" for m in medians[1:]]
            print("".join(f"{word:>14}" for word in [text_of(bytes_of), *(f"{m:.0f}" for m in medians), *ratios]))
        print("results: " + ("WRONG" if wrong else "right"))
    dist.barrier()
    dist.destroy_process_group()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
