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


def _change(owner: Any, name: str, changed: Callable[[Any], Any]) -> None:
    """Puts changed(the function) in the place of a function of torch's, where it has that; once."""
    original = getattr(owner, name, None)
    if original is None or hasattr(original, "of_terrace"):
        return
    function = changed(original)
    function.of_terrace = True
    setattr(owner, name, function)


def make_groups_custom(backend_class: Any) -> None:
    """Changes torch's shrink_group, which takes each back end of the CPU for its own Gloo (torch 2.15), so that DDP's
    log reads memory that is not Gloo's. Groups of `backend_class` stay what they are."""
    def changed(original: Any) -> Any:
        def create(backend: Any, *arguments: Any) -> Any:
            group = original(backend, *arguments)
            if isinstance(backend, backend_class):
                custom = dist.ProcessGroup.BackendType.CUSTOM
                for device in dist.Backend.backend_capability["terrace"]:
                    group._register_backend(torch.device(device), custom, backend)
                group._set_default_backend(custom)
            return group
        return create

    _change(dist.distributed_c10d, "_create_shrunk_process_group", changed)


def let_ranks_be_in_no_part(backend_class: Any) -> None:
    """Changes torch's split_group, which reads through a null pointer on ranks that are in none of the parts (torch
    2.15)."""
    def changed(original: Any) -> Any:
        def split_group(self: Any, ranks: Any, *arguments: Any, **more: Any) -> Any:
            if self.rank() in ranks or not _is_ours(self, backend_class):
                return original(self, ranks, *arguments, **more)
            self._get_backend(torch.device("cpu")).split(None, ranks, None)
            return None
        return split_group

    _change(dist.ProcessGroup, "split_group", changed)


def pass_on_gather_single(backend_class: Any) -> None:
    """Changes torch's gather_single, which does not reach back ends written in Python (torch 2.15)."""
    def changed(original: Any) -> Any:
        def gather_single(self: Any, output: Any, input: Any, *arguments: Any, **more: Any) -> Any:
            if not _is_ours(self, backend_class):
                return original(self, output, input, *arguments, **more)
            return self._get_backend(input.device).gather_single(output, input, *arguments, **more)
        return gather_single

    _change(dist.ProcessGroup, "gather_single", changed)


def name_the_back_end_in_logs(backend_class: Any) -> None:
    """Changes DDP's logging data, where torch names each back end "custom" that is not its own."""
    def changed(original: Any) -> Any:
        def logging_data(self: Any) -> Any:
            data = original(self)
            if _is_ours(self.process_group, backend_class):
                return {**data, "backend_name": dist.get_backend(self.process_group)}
            return data
        return logging_data

    _change(torch.nn.parallel.DistributedDataParallel, "_get_ddp_logging_data", changed)


def change_torch(backend_class: Any) -> None:
    """Changes all of them. May be called again."""
    for change in (make_groups_custom, let_ranks_be_in_no_part, pass_on_gather_single, name_the_back_end_in_logs):
        change(backend_class)
