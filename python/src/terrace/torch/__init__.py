"""PyTorch's collectives by a plan: `torch.distributed.init_process_group("terrace")`.

Importing this module registers the back end. From torch 2.14 on torch finds it by itself when the package is installed.
"""
from __future__ import annotations

import inspect

import torch.distributed as dist

from terrace.torch.ddp_hook import ddp_hook
from terrace.torch.groups import create_group
from terrace.torch.optimizer import Adasum, Average, Compression, DistributedOptimizer, Sum
from terrace.torch.state import broadcast_optimizer_state, broadcast_parameters

__all__ = ["Adasum", "Average", "Compression", "DistributedOptimizer", "Sum", "broadcast_optimizer_state",
           "broadcast_parameters", "ddp_hook", "register"]


def register() -> None:
    """Makes "terrace" a back end of torch.distributed. May be called again."""
    if hasattr(dist.Backend, "TERRACE"):
        return
    parameters = inspect.signature(dist.Backend.register_backend).parameters
    devices = {"devices": ["cpu"]} if "devices" in parameters else {}  # not in torch 1.13
    dist.Backend.register_backend("terrace", create_group, extended_api=True, **devices)


register()
