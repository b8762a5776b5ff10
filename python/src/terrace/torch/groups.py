"""Process groups, in the form that torch's version requires."""
from __future__ import annotations

import os
from collections import deque
from datetime import timedelta
from typing import Any, Sequence

import torch.distributed as dist

from terrace._errors import rank_failed_error
from terrace._stores import C10dStore
from terrace.communicator import Communicator, create
from terrace.settings import Options, Plan
from terrace.torch.failures import survivors
from terrace.torch.faults import change_torch
from terrace.torch.holders import forward_questions
from terrace.torch.operations import Operations

# Groups that have not been shut down: torch's wrapper for TORCH_DISTRIBUTED_DEBUG=DETAIL does not keep Python objects
# alive.
_alive: set[Any] = set()


def _kept(group: Any) -> Any:
    group._on_close = lambda: _alive.discard(group)
    _alive.add(group)
    return group


_Backend: Any = getattr(dist.distributed_c10d, "C10DBackend", None)


def _can_be_subclassed(backend: Any) -> bool:
    """Returns True if back ends can be written in Python: torch 2.14 and later."""
    try:
        type("Probe", (backend,), {})(0, 1)
        return True
    except (TypeError, RuntimeError):
        return False


class TerraceProcessGroup(Operations, dist.ProcessGroup):  # type: ignore[misc, unused-ignore]
    """The group for torch before 2.14."""

    supports_splitting = False

    def __init__(self, comm: Communicator, store: C10dStore, timeout: timedelta) -> None:
        super().__init__(comm.rank, comm.size)
        self._comm, self._store, self._timeout = comm, store, timeout
        self._recent = deque(maxlen=1000)  # torch 1.13 does not keep a Work written in Python alive

    def _get_backend(self, device: Any) -> Any:
        """For `device_id` and failed_ranks(): torch's own function finds no back end in a group that is one itself."""
        return self


TerraceBackend: Any = None
if _Backend is not None and _can_be_subclassed(_Backend):

    class TerraceBackend(Operations, _Backend):  # type: ignore[misc, no-redef]
        """The group for torch 2.14 and later."""

        # Otherwise torch asks its own class for these.
        supports_splitting = supports_shrinking = True
        supports_coalescing = supports_window = supports_reconfigure = False

        def __init__(self, comm: Communicator, store: C10dStore, timeout: timedelta) -> None:
            super().__init__(comm.rank, comm.size)
            self._comm, self._store, self._timeout = comm, store, timeout
            self._left: tuple[Communicator, list[int]] | None = None  # ranks that continue after a failure
            self._options = _Backend.Options(self.backend_name, timeout=timeout)

        @property
        def options(self) -> Any:
            return self._options

        def set_timeout(self, timeout: timedelta) -> None:
            """For torch.distributed.set_timeout: applies to calls from now on."""
            self._comm.set_timeout(timeout.total_seconds())
            self._timeout = timeout

        def eager_connect_single_device(self, device: Any) -> None:
            """For `device_id`: sets the group's GPU at the beginning. A host group is connected when it is made."""
            if device.type == "cuda":
                self._on_gpu(device)

        def split(self, store: Any, ranks: Sequence[int], options: Any) -> Any:
            """Returns a group of some ranks, with the plan of its part; None on other ranks. Called by all ranks."""
            ours = list(ranks)
            mine = ours.index(self._comm.rank) if self._comm.rank in ours else -1
            part = self._comm.split(min(ours) if mine >= 0 else -1, mine)
            if part is None:
                return None
            return self._group_of(part, C10dStore(store), options)

        def _group_of(self, part: Communicator, store: C10dStore, options: Any) -> Any:
            group = TerraceBackend(part, store, options._timeout if options is not None else self._timeout)
            if self._gpu is not None:
                group._on_gpu(self._gpu.device)  # the part's communicator already has it
            return _kept(group)

        def shrink(self, ranks_to_exclude: Sequence[int], flags: int = 0, options: Any = None) -> Any:
            """Returns the group of the ranks that have not failed, after rank_failed_error. They all call it, through
            torch.distributed.shrink_group. @raises rank_failed_error if the failed ranks are not ranks_to_exclude"""
            if self._left is None:
                self._left = survivors(self._comm)
            part, left = self._left
            gone = sorted(set(range(self._comm.size)) - set(left))
            if gone != sorted(ranks_to_exclude):
                self.failed = tuple(gone)
                raise rank_failed_error(f"shrink: asked to go on without {list(ranks_to_exclude)}, but {gone} have "
                                        "failed: call it again with terrace.torch.failed_ranks()")
            return self._group_of(part, self._store.under("without-" + "-".join(map(str, gone))), options)

        def perform_nocolor_split(self, device: Any) -> None:
            """Called by ranks that are in none of the groups."""
            self._comm.split(-1)


def _options(asked: Any) -> Options:
    """Returns the environment's options. The plan of TERRACE_PLAN is for groups of its size; others get their own."""
    made = Options(from_environment=True, timeout=asked.timeout.total_seconds(), threads="any",
                   world_ranks=",".join(map(str, getattr(asked, "global_ranks_in_group", ()))))
    plan = os.environ.get("TERRACE_PLAN")
    if plan and Plan(plan).ranks != asked.group_size:
        made.set("plan", "")
    return made


def create_group(asked: Any, backend_options: Any = None) -> Any:
    """Makes a group for torch.distributed.init_process_group and new_group."""
    forward_questions()
    if TerraceBackend is not None:
        change_torch(TerraceBackend)
    split_from = getattr(asked, "split_from", None)
    if split_from is not None:
        return split_from.split(asked.store, asked.global_ranks_in_group, backend_options)
    store = C10dStore(asked.store)
    comm = create(store, asked.group_rank, asked.group_size, options=_options(asked))
    made = TerraceBackend if TerraceBackend is not None else TerraceProcessGroup
    return _kept(made(comm, store, asked.timeout))
