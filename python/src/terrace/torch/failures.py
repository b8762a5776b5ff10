"""Training through failures: who has failed, and who goes on."""
from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from terrace._errors import rank_failed_error
from terrace.communicator import Communicator
from terrace.torch.tensors import elements


def survivors(comm: Communicator) -> tuple[Communicator, list[int]]:
    """The communicator of the ranks that have not failed, and their ranks in this one. Called by all of them."""
    mine = torch.tensor([comm.rank])
    while True:
        comm = comm.shrink()
        left = torch.zeros(comm.size, dtype=torch.int64)
        try:
            comm.allgather(elements(mine), elements(left))
            return comm, [int(rank) for rank in left]
        except rank_failed_error:  # one more: the others see that, too
            continue


def failed_ranks(group: Any = None) -> list[int]:
    """The ranks of one of torch's groups that have failed, as an error of its calls has said; none where none has.

    torch.distributed.shrink_group(failed_ranks()) goes on without them (torch 2.14 and later). An error that comes out
    of DDP's backward() says in its text alone who has failed.
    """
    whole = group if group is not None else dist.group.WORLD
    backend = whole._get_backend(torch.device("cpu")) if hasattr(whole, "_get_backend") else whole
    return list(getattr(backend, "failed", ()))
