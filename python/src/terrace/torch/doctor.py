"""Finds problems that a run would have: `python -m terrace.torch.doctor`."""
from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import Iterator, NamedTuple

import terrace
from terrace import _planning


class Finding(NamedTuple):
    """One line of output: True if there is no problem, a text with the fix, and True if the line may matter."""

    fine: bool
    text: str
    may_matter: bool = False


def _torch() -> Iterator[Finding]:
    try:
        import torch
        import torch.distributed as dist
    except Exception as e:
        yield Finding(False, f"torch cannot be imported ({e}): pip install torch")
        return
    yield Finding(dist.is_available(), f"torch {torch.__version__}" + ("" if dist.is_available() else
                  " has no torch.distributed: install a build that has"))
    from terrace.torch.groups import TerraceBackend
    kind = "a Backend" if TerraceBackend is not None else "a ProcessGroup, as before torch 2.14"
    yield Finding(True, f"the back end is {kind}")


def _library() -> Iterator[Finding]:
    yield Finding(True, f"libterrace {terrace.version()}")
    try:
        class Alone:
            def __init__(self) -> None:
                self.values: dict[str, bytes] = {}

            def put(self, key: str, value: bytes) -> None:
                self.values[key] = value

            def get(self, key: str) -> bytes | None:
                return self.values.get(key)

            def remove(self, key: str) -> None:
                self.values.pop(key, None)

        alone = terrace.create(Alone(), 0, 1, options=terrace.Options(timeout=20))
        yield Finding(True, "UCX connects")
    except terrace.error as e:
        yield Finding(False, f"UCX does not work: {e}")
        return
    yield from _gpus(alone)
    alone.close()


def _gpus(comm: terrace.Communicator) -> Iterator[Finding]:
    try:
        import torch
    except Exception:  # _torch() reports this
        return
    if torch.cuda.device_count() == 0:
        return
    try:
        comm.use_device(0)
        yield Finding(True, "NCCL connects: tensors on GPUs go by Terrace")
    except terrace.error as e:
        yield Finding(False, f"tensors on GPUs need NCCL and a Terrace built with CUDA ({e}), or "
                      'init_process_group("cpu:terrace,cuda:nccl")')


# Subjects of `terrace doctor` that also matter without MPI.
_OF_THE_MACHINE = ("shared memory", "open files", "locked memory", "network", "host name", "variables")
# torchrun's agents use host names only if no address is given.
_ADVICE = {"host name": "\n       or start torchrun on several nodes with --local-addr ADDRESS"}


def _machine() -> Iterator[Finding]:
    said = subprocess.run([_planning.program(), "doctor"], capture_output=True, text=True, check=False).stdout
    for verdict, subject, rest in re.findall(r"^(ok|note|FIX) +([^:\n]+)(:.*(?:\n {7}.*)*)", said, re.M):
        if subject not in _OF_THE_MACHINE:
            continue
        is_bad, advice = verdict == "FIX", _ADVICE.get(subject, "")
        yield Finding(not is_bad or advice != "", f"{subject}{rest}{advice if is_bad else ''}", verdict != "ok")


def _plan() -> Iterator[Finding]:
    file = os.environ.get("TERRACE_PLAN")
    if not file:
        yield Finding(True, "no TERRACE_PLAN: each group gets a plan made for it when it is created")
        return
    try:
        plan = terrace.Plan(file)
    except terrace.error as e:
        yield Finding(False, str(e))
        return
    world = int(os.environ.get("WORLD_SIZE", plan.ranks))
    yield Finding(world == plan.ranks, f"TERRACE_PLAN is for {plan.ranks} ranks" + ("" if world == plan.ranks else
                  f", WORLD_SIZE is {world}: plan for the ranks of the job"))


def main() -> int:
    """Prints the findings. Returns 1 if there is a problem."""
    found = [finding for look in (_library, _torch, _machine, _plan) for finding in look()]
    for one in found:
        print(f"{'FIX ' if not one.fine else 'note' if one.may_matter else 'ok  '} {one.text}")
    return 0 if all(one.fine for one in found) else 1


if __name__ == "__main__":
    sys.exit(main())
