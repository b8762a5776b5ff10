"""A communication hook for DistributedDataParallel."""
from __future__ import annotations

from typing import Any, Callable, Sequence

import torch

from terrace.reductions import Reduction
from terrace.settings import AnyPlan
from terrace.torch.communicators import communicator_beside
from terrace.torch.tensors import elements
from terrace.torch.work import Work


def ddp_hook(group: Any = None, *, wire: str | None = None, levels: Sequence[str] | None = None,
             plan: AnyPlan | None = None, error_feedback: bool = False) -> Callable[[Any, Any], Any]:
    """Makes a hook that averages DDP's buckets over Terrace, whatever the back end of the group. Collective.

        model = DistributedDataParallel(model, process_group=group)
        model.register_comm_hook(None, terrace.torch.ddp_hook(group, wire="bfloat16", levels=["rack"]))

    With `wire` (bfloat16, float16, int8), sums cross the networks `levels` of the plan rounded to this type, by default
    all its networks; inside nodes they are exact. The machine is that of `plan`, by default that of TERRACE_PLAN.
    `error_feedback` adds a rank's rounding errors to its gradients of the next step. This needs the memory of all
    gradients once more. Order and sizes of buckets are DDP's (bucket_cap_mb).

    The result has an attribute `communicator`, which lives as long as the hook.
    """
    comm = communicator_beside(group, wire=wire, levels=levels, plan=plan)
    lost: dict[tuple[int, ...], Any] = {}  # by parameters of a bucket: its rounding errors

    def with_feedback(bucket: Any) -> Work:
        tensor, key = bucket.buffer(), tuple(id(p) for p in bucket.parameters())
        if key not in lost:
            if bucket.index() == 0:
                lost.clear()  # DDP has new buckets
            lost[key] = torch.zeros_like(tensor)
        errors = lost[key]
        tensor.add_(errors)
        errors.zero_()
        request = comm.allreduce_keeping_errors(elements(tensor), elements(tensor), elements(errors))
        return Work([request], tensor, lambda: tensor.div_(comm.size), True)

    def terrace_hook(state: Any, bucket):  # type: ignore[no-untyped-def]  # torch reads the annotations
        if error_feedback:
            return with_feedback(bucket).get_future()
        buffer = elements(bucket.buffer())
        return Work([comm.allreduce_async(buffer, None, Reduction("avg"))], bucket.buffer(), None, True).get_future()

    terrace_hook.communicator = comm  # type: ignore[attr-defined]
    return terrace_hook
