"""Functions of torch that this package changes, since they fail with back ends written in Python."""
from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist


def make_groups_custom(backend_class: Any) -> None:
    """Changes torch's shrink_group, which takes each back end of the CPU for its own Gloo (torch 2.15), so that DDP's
    log reads memory that is not Gloo's. Groups of `backend_class` stay what they are. May be called again."""
    c10d: Any = dist.distributed_c10d
    original = getattr(c10d, "_create_shrunk_process_group", None)
    if original is None or hasattr(original, "of_terrace"):
        return

    def create(backend: Any, *arguments: Any) -> Any:
        group = original(backend, *arguments)
        if isinstance(backend, backend_class):
            custom = dist.ProcessGroup.BackendType.CUSTOM
            for device in dist.Backend.backend_capability["terrace"]:
                group._register_backend(torch.device(device), custom, backend)
            group._set_default_backend(custom)
        return group

    create.of_terrace = True  # type: ignore[attr-defined]
    c10d._create_shrunk_process_group = create


def let_ranks_be_in_no_part(backend_class: Any) -> None:
    """Changes torch's split_group, which reads through a null pointer on ranks that are in none of the parts (torch
    2.15). May be called again."""
    original = getattr(dist.ProcessGroup, "split_group", None)
    if original is None or hasattr(original, "of_terrace"):
        return

    def split_group(self: Any, ranks: Any, *arguments: Any, **more: Any) -> Any:
        try:
            backend = self._get_backend(torch.device("cpu"))
        except RuntimeError:  # there is none for CPUs
            backend = None
        if not isinstance(backend, backend_class) or self.rank() in ranks:
            return original(self, ranks, *arguments, **more)
        backend.split(None, ranks, None)
        return None

    split_group.of_terrace = True  # type: ignore[attr-defined]
    dist.ProcessGroup.split_group = split_group
