"""Times torch.distributed over several back ends, in turns, in one run: all_reduce, steps of DDP and FSDP2.

    torchrun --nproc-per-node 4 -m terrace.bench --backends terrace gloo --sizes 8 4KiB 32MiB
    torchrun --nproc-per-node 4 -m terrace.bench --steps 25

Each round measures every back end once at every size; the time of a call is that of its slowest rank. Prints medians.
With --steps it times a forward and a backward pass of an MLP instead, with so many million parameters.
"""
from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import sys
import time
from typing import Any

_KINDS = ["DDP", "FSDP2"]
_TYPES = ["float32", "float64", "float16", "bfloat16"]
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
    parser.add_argument("--dtype", choices=_TYPES, default=_TYPES[0], help="of all_reduce")
    parser.add_argument("--calls", type=int, metavar="N", help="a time of all_reduce is the mean of N calls in turn; "
                                                               "default: 50 up to 64 KiB, else 1")
    parser.add_argument("--rounds", type=int, default=7, help="how often everything is measured")
    parser.add_argument("--steps", type=float, metavar="MILLIONS", help="measure steps of DDP and FSDP2: parameters")
    parser.add_argument("--kinds", nargs="+", choices=_KINDS, default=_KINDS, help="the steps that --steps measures")
    parser.add_argument("--json", metavar="FILE", help="write the times of each row and back end [s]")
    return parser.parse_args()


class _Bench:
    """Groups of the same ranks, one for each back end, and times by row and back end [s]."""

    def __init__(self, backends: list[str], rounds: int) -> None:
        import torch
        import torch.distributed as dist
        self.torch, self.dist, self.rounds = torch, dist, rounds
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.groups = {name: dist.new_group(backend=name) for name in backends}
        self.times: dict[tuple[str, str], list[float]] = {}
        self.wrong = False

    def measure(self, row: str, backend: str, call: Any, repeats: int) -> None:
        """Notes the time of the slowest rank."""
        self.dist.barrier()
        begun = time.perf_counter()
        for _ in range(repeats):
            call()
        longest = self.torch.tensor([(time.perf_counter() - begun) / repeats])
        self.dist.all_reduce(longest, self.dist.ReduceOp.MAX)
        self.times.setdefault((row, backend), []).append(longest.item())

    def all_reduce(self, sizes: list[int], dtype: str, calls: int | None) -> None:
        element = self.torch.ones(1, dtype=getattr(self.torch, dtype))
        for _ in range(self.rounds + 1):
            for size in sizes:
                data = element.repeat(max(1, size // element.element_size()))
                for name, group in self.groups.items():
                    data.fill_(1)
                    self.dist.all_reduce(data, group=group)
                    self.wrong |= not bool((data == self.size).all())
                    data.fill_(0)
                    self.measure(text_of(size), name, lambda: self.dist.all_reduce(data, group=group),
                                 calls or (50 if size <= 65536 else 1))

    def steps(self, millions: float, kinds: list[str]) -> None:
        torch = self.torch
        width = int((millions * 1e6 / 4) ** 0.5)
        made: dict[tuple[str, str], Any] = {}
        for name, group in self.groups.items():
            for kind in kinds:
                torch.manual_seed(1)
                model = torch.nn.Sequential(*(torch.nn.Linear(width, width, bias=False) for _ in range(4)))
                if kind == "DDP":
                    made[kind, name] = torch.nn.parallel.DistributedDataParallel(model, process_group=group)
                    continue
                from torch.distributed.device_mesh import DeviceMesh
                from torch.distributed.fsdp import fully_shard
                mesh = DeviceMesh.from_group(group, "cpu")
                for layer in model:
                    fully_shard(layer, mesh=mesh)
                made[kind, name] = fully_shard(model, mesh=mesh)
        batch = torch.full((1, width), 1 / width)

        def step(model: Any) -> None:
            model.zero_grad()
            model(batch).sum().backward()

        for _ in range(self.rounds + 1):
            for (kind, name), model in made.items():
                self.measure(f"{kind} step", name, lambda: step(model), 1)

    def report(self, title: str) -> None:
        """Prints medians; the first round is not counted."""
        names = list(self.groups)
        print(f"{title} over {self.size} ranks, medians of {self.rounds} rounds [us]")
        print("".join(f"{word:>14}" for word in ["", *names, *(f"{n}/{names[0]}" for n in names[1:])]))
        for row in dict.fromkeys(row for row, _ in self.times):
            medians = [1e6 * statistics.median(self.times[row, name][1:]) for name in names]
            ratios = [f"{m / medians[0]:.2f}" for m in medians[1:]]
            print("".join(f"{word:>14}" for word in [row, *(f"{m:.0f}" for m in medians), *ratios]))


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
    bench = _Bench(arguments.backends, arguments.rounds)
    if arguments.steps:
        bench.steps(arguments.steps, arguments.kinds)
    else:
        bench.all_reduce(arguments.sizes, arguments.dtype, arguments.calls)
    if bench.rank == 0:
        title = f"MLP of {arguments.steps:g} M parameters" if arguments.steps else f"all_reduce of {arguments.dtype}"
        bench.report(title)
        if arguments.json:
            with open(arguments.json, "w", encoding="utf-8") as file:
                json.dump([[*key, times[1:]] for key, times in bench.times.items()], file)
        if not arguments.steps:
            print("results: " + ("WRONG" if bench.wrong else "right"))
    dist.barrier()
    dist.destroy_process_group()
    return 1 if bench.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
