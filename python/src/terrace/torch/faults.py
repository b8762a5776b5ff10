"""Functions of torch that this package changes, since they fail with back ends written in Python. Each is changed once;
groups of other back ends keep what torch does."""
from __future__ import annotations

from typing import Any, Callable

import torch
import torch.distributed as dist


def _is_ours(group: Any, backend_class: Any) -> bool:
    """Whether tensors on CPUs are Terrace's in a group."""
    try:
        return isinstance(group._get_backend(torch.device("cpu")), backend_class)
    except RuntimeError:  # there is no back end for CPUs
        return False


def replaces(owner: Any, name: str) -> Callable[[Callable[..., Any]], None]:
    """Puts a function in the place of one of torch's, where it has that; once. The function gets the original first."""
    def put(function: Callable[..., Any]) -> None:
        original = getattr(owner, name, None)
        if original is None or hasattr(original, "of_terrace"):
            return

        def changed(*arguments: Any, **more: Any) -> Any:
            return function(original, *arguments, **more)

        changed.__name__, changed.__doc__ = name, original.__doc__
        changed.of_terrace = True  # type: ignore[attr-defined]
        setattr(owner, name, changed)
    return put


def make_groups_custom(backend_class: Any) -> None:
    """Changes torch's shrink_group, which takes each back end of the CPU for its own Gloo (torch 2.15), so that DDP's
    log reads memory that is not Gloo's. Groups of `backend_class` stay what they are."""
    @replaces(dist.distributed_c10d, "_create_shrunk_process_group")
    def create(original: Any, backend: Any, *arguments: Any) -> Any:
        group = original(backend, *arguments)
        if isinstance(backend, backend_class):
            custom = dist.ProcessGroup.BackendType.CUSTOM
            for device in dist.Backend.backend_capability["terrace"]:
                group._register_backend(torch.device(device), custom, backend)
            group._set_default_backend(custom)
        return group


def let_ranks_be_in_no_part(backend_class: Any) -> None:
    """Changes torch's split_group, which reads through a null pointer on ranks that are in none of the parts (torch
    2.15)."""
    @replaces(dist.ProcessGroup, "split_group")
    def split_group(original: Any, self: Any, ranks: Any, *arguments: Any, **more: Any) -> Any:
        if self.rank() in ranks or not _is_ours(self, backend_class):
            return original(self, ranks, *arguments, **more)
        self._get_backend(torch.device("cpu")).split(None, ranks, None)
        return None


def pass_on_gather_single(backend_class: Any) -> None:
    """Changes torch's gather_single, which does not reach back ends written in Python (torch 2.15)."""
    @replaces(dist.ProcessGroup, "gather_single")
    def gather_single(original: Any, self: Any, output: Any, input: Any, *arguments: Any, **more: Any) -> Any:
        if not _is_ours(self, backend_class):
            return original(self, output, input, *arguments, **more)
        return self._get_backend(input.device).gather_single(output, input, *arguments, **more)


def name_the_back_end_in_logs(backend_class: Any) -> None:
    """Changes DDP's logging data, where torch names each back end "custom" that is not its own."""
    @replaces(torch.nn.parallel.DistributedDataParallel, "_get_ddp_logging_data")
    def logging_data(original: Any, self: Any) -> Any:
        data = original(self)
        if _is_ours(self.process_group, backend_class):
            return {**data, "backend_name": dist.get_backend(self.process_group)}
        return data


def change_torch(backend_class: Any) -> None:
    """Changes all of them. May be called again."""
    for change in (make_groups_custom, let_ranks_be_in_no_part, pass_on_gather_single, name_the_back_end_in_logs):
        change(backend_class)
