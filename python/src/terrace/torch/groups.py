"""Process groups: how they are made, as what torch's version asks for."""
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

# Groups that have not been shut down: torch's wrapper for TORCH_DISTRIBUTED_DEBUG=DETAIL does not keep what is written
# in Python alive.
_alive: set[Any] = set()


def _kept(group: Any) -> Any:
    group._on_close = lambda: _alive.discard(group)
    _alive.add(group)
    return group


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

    supports_splitting = False

    def __init__(self, comm: Communicator, store: C10dStore, timeout: timedelta) -> None:
        super().__init__(comm.rank, comm.size)
        self._comm, self._store, self._timeout = comm, store, timeout
        self._recent = deque(maxlen=1000)  # torch 1.13 keeps no Work that is written in Python alive

    def _get_backend(self, device: Any) -> Any:
        """Of `device_id` and failed_ranks(): torch's own finds no back end in a group that is one itself."""
        return self


TerraceBackend: Any = None
if _Backend is not None and _can_be_subclassed(_Backend):

    class TerraceBackend(Operations, _Backend):  # type: ignore[misc, no-redef]
        """For torch 2.14 and later."""

        # Which torch would otherwise ask of its own class.
        supports_splitting = supports_shrinking = True
        supports_coalescing = supports_window = supports_reconfigure = False

        def __init__(self, comm: Communicator, store: C10dStore, timeout: timedelta) -> None:
            super().__init__(comm.rank, comm.size)
            self._comm, self._store, self._timeout = comm, store, timeout
            self._left: tuple[Communicator, list[int]] | None = None  # who goes on, after a failure
            self._options = _Backend.Options(self.backend_name, timeout=timeout)

        @property
        def options(self) -> Any:
            return self._options

        def set_timeout(self, timeout: timedelta) -> None:
            """Of torch.distributed.set_timeout: for calls from now on."""
            self._comm.set_timeout(timeout.total_seconds())
            self._timeout = timeout

        def eager_connect_single_device(self, device: Any) -> None:
            """Of `device_id`: the group has its GPU from the beginning. On the host it is connected when it is made."""
            if device.type == "cuda":
                self._on_gpu(device)

        def split(self, store: Any, ranks: Sequence[int], options: Any) -> Any:
            """A group of some of the ranks, by the plan of its part; None on the others. Called by all ranks."""
            ours = list(ranks)
            mine = ours.index(self._comm.rank) if self._comm.rank in ours else -1
            part = self._comm.split(min(ours) if mine >= 0 else -1, mine)
            if part is None:
                return None
            return self._group_of(part, C10dStore(store), options)

        def _group_of(self, part: Communicator, store: C10dStore, options: Any) -> Any:
            group = TerraceBackend(part, store, options._timeout if options is not None else self._timeout)
            if self._gpu is not None:
                group._on_gpu(self._gpu.device)  # the communicator's part has it
            return _kept(group)

        def shrink(self, ranks_to_exclude: Sequence[int], flags: int = 0, options: Any = None) -> Any:
            """The group of the ranks that have not failed, after rank_failed_error. Called by all of them, through
            torch.distributed.shrink_group. @raises rank_failed_error if others have failed than those to exclude"""
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
            """What a rank calls that is in none of the groups."""
            self._comm.split(-1)


def _options(asked: Any) -> Options:
    """What the environment says. A plan of TERRACE_PLAN is for groups of its size; others get one made for them."""
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
