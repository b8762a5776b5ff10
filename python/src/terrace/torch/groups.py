"""Process groups: how they are made, as what torch's version asks for."""
from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

import torch.distributed as dist

from terrace.communicator import Communicator, create
from terrace.settings import Options, Plan
from terrace.torch.operations import Operations
from terrace.torch.store import C10dStore

_Backend: Any = getattr(dist.distributed_c10d, "C10DBackend", None)


def _can_be_subclassed(backend: Any) -> bool:
    """Backends written in Python: torch 2.14 and later."""
    try:
        type("Probe", (backend,), {})(0, 1)
        return True
    except (TypeError, RuntimeError):
        return False


class TerraceProcessGroup(Operations, dist.ProcessGroup):  # type: ignore[misc, unused-ignore]
    """For torch before 2.14."""

    def __init__(self, comm: Communicator, timeout: timedelta) -> None:
        super().__init__(comm.rank, comm.size)
        self._comm, self._timeout = comm, timeout


TerraceBackend: Any = None
if _Backend is not None and _can_be_subclassed(_Backend):

    class TerraceBackend(Operations, _Backend):  # type: ignore[misc, no-redef]
        """For torch 2.14 and later."""

        def __init__(self, comm: Communicator, timeout: timedelta) -> None:
            super().__init__(comm.rank, comm.size)
            self._comm, self._timeout = comm, timeout
            self._options = _Backend.Options("terrace", timeout=timeout)

        @property
        def options(self) -> Any:
            return self._options

        # torch asks the class in Python, which without these asks torch.
        @property
        def supports_splitting(self) -> bool:
            return False

        @property
        def supports_coalescing(self) -> bool:
            return False


def _options(size: int, timeout: timedelta) -> Options:
    """What the environment says. A plan of TERRACE_PLAN is for groups of its size; others get one made for them."""
    made = Options(from_environment=True, timeout=timeout.total_seconds(), threads="any")
    plan = os.environ.get("TERRACE_PLAN")
    if plan and Plan(plan).ranks != size:
        made.set("plan", "")
    return made


def create_group(asked: Any, backend_options: Any = None) -> Any:
    """Makes a group for torch.distributed.init_process_group and new_group."""
    comm = create(C10dStore(asked.store), asked.group_rank, asked.group_size,
                  options=_options(asked.group_size, asked.timeout))
    made = TerraceBackend if TerraceBackend is not None else TerraceProcessGroup
    return made(comm, asked.timeout)
