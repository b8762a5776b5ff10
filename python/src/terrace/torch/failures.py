"""Training through failures: the ranks that have failed, and those that continue."""
from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from terrace._errors import rank_failed_error
from terrace.communicator import Communicator
from terrace.torch.tensors import elements


def survivors(comm: Communicator) -> tuple[Communicator, list[int]]:
    """Returns a communicator of the ranks that have not failed, and their ranks in this one. Collective among these."""
    mine = torch.tensor([comm.rank])
    while True:
        comm = comm.shrink()
        left = torch.zeros(comm.size, dtype=torch.int64)
        try:
            comm.allgather(elements(mine), elements(left))
            return comm, [int(rank) for rank in left]
        except rank_failed_error:  # another rank has failed, which the others see, too
            continue


def failed_ranks(group: Any = None) -> list[int]:
    """Returns the failed ranks of one of torch's groups, as an error of its calls reported; an empty list without one.

    torch.distributed.shrink_group(failed_ranks()) continues without these (torch 2.14 and later). An error from DDP's
    backward() has the failed ranks only in its text.
    """
    whole = group if group is not None else dist.group.WORLD
    backend = whole._get_backend(torch.device("cpu")) if hasattr(whole, "_get_backend") else whole
    return list(getattr(backend, "failed", ()))
