"""PyTorch's collectives by a plan: `torch.distributed.init_process_group("terrace")`.

Importing this module registers the back end. From torch 2.14 on, torch finds the installed package itself.
"""
from __future__ import annotations

import inspect

import torch
import torch.distributed as dist

from terrace.torch.ddp_hook import ddp_hook
from terrace.torch.failures import failed_ranks
from terrace.torch.groups import create_group
from terrace.torch.optimizer import Adasum, Average, Compression, DistributedOptimizer, Sum
from terrace.torch.state import broadcast_optimizer_state, broadcast_parameters

__all__ = ["Adasum", "Average", "Compression", "DistributedOptimizer", "Sum", "broadcast_optimizer_state",
           "broadcast_parameters", "ddp_hook", "failed_ranks", "register"]


def register() -> None:
    """Registers "terrace" as a back end of torch.distributed. May be called again."""
    if hasattr(dist.Backend, "TERRACE"):
        return
    parameters = inspect.signature(dist.Backend.register_backend).parameters
    # torch 1.13 has no parameter for devices.
    devices = ["cpu", *(["cuda"] if torch.cuda.device_count() > 0 else [])]
    by_device = {"devices": devices} if "devices" in parameters else {}
    dist.Backend.register_backend("terrace", create_group, extended_api=True, **by_device)


register()
