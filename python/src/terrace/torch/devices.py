"""The GPU of a group: its stream, and calls of tensors on the GPU.

Calls are added to a stream of the communicator, after the work of torch's current stream. `wait()` makes the current
stream wait, not the caller, as in torch's own back end for GPUs.
"""
from __future__ import annotations

import time
from collections import deque
from datetime import timedelta
from typing import Any, Callable, Deque, Sequence

import torch

from terrace._buffers import Buffer
from terrace._requests import Request
from terrace.communicator import Communicator
from terrace.torch import holders
from terrace.torch.tensors import Tensor, elements, is_on_gpu, raw, room_for_one
from terrace.torch.work import Work, seconds_of

cuda: Any = torch.cuda
Future: Any = torch.futures.Future


class Gpu:
    """The GPU of one communicator, which starts to use it here if it has none. Collective."""

    def __init__(self, comm: Communicator, device: torch.device) -> None:
        if not comm.has_device:
            comm.use_device(device.index if device.index is not None else cuda.current_device())
        self.device = device
        self.stream = cuda.ExternalStream(comm.device_stream, device=device)
        self._under_way: Deque[GpuWork] = deque()

    def follow(self) -> None:
        """Makes later work of the stream wait for the work of the current stream."""
        self.stream.wait_stream(cuda.current_stream(self.device))

    def keep(self, work: GpuWork) -> None:
        """Keeps the memory of a call alive until it is complete."""
        while self._under_way and self._under_way[0].is_over():
            self._under_way.popleft()
        self._under_way.append(work)

    def finish(self) -> None:
        """Returns when all calls are complete, and releases their memory."""
        self.stream.synchronize()
        self._under_way.clear()


class GpuWork(Work):
    """A call of tensors on a GPU. Its constructor adds the completion work to the stream, after the call itself."""

    on_gpu = True

    def __init__(self, gpu: Gpu, parts: Sequence[Request | Work], results: Any,
                 finish: Callable[[], None] | None) -> None:
        super().__init__(parts, results)
        self._gpu = gpu
        with cuda.stream(gpu.stream):
            if finish is not None:
                finish()
            self._reached = cuda.Event()
            self._reached.record(gpu.stream)
        self._kept = finish
        if cuda.is_current_stream_capturing():  # the graph runs the call, and its event has no meaning outside
            self._parts, self._kept = [], None
            self._done.set()
        else:
            gpu.keep(self)

    def belongs_to(self, title: str, group: Any, began: float, event: Any) -> None:
        self._title, self._rank, self._note_failure = title, group._comm.rank, group.note_failure
        if event is not None:
            event.end()

    def is_over(self) -> bool:
        """Returns True if the call is complete, or has failed."""
        if self._done.is_set():
            return True
        try:
            if not self._reached.query() or not all(self._is_part_over(part) for part in self._parts):
                return False
        except Exception as e:
            self._error = e
            self._note_failure(e)
        self._parts, self._kept = [], None
        self._done.set()
        return True

    is_completed = is_over

    @staticmethod
    def _is_part_over(part: Any) -> bool:
        return bool(part.is_over() if isinstance(part, GpuWork) else part.test())

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Makes the current stream wait for the call. With a timeout, the caller waits. Raises the call's error, if
        known."""
        seconds = seconds_of(timeout)
        if seconds is not None and not self._done_within(seconds):
            raise RuntimeError(f"the call was not complete within {seconds} s")
        self.is_over()
        self._outcome()
        cuda.current_stream(self._gpu.device).wait_event(self._reached)
        return True

    def _done_within(self, seconds: float) -> bool:
        end = time.monotonic() + seconds
        while not self.is_over():
            if time.monotonic() > end:
                return False
            time.sleep(0.0002)
        return True

    def then(self, done: Callable[[BaseException | None], None]) -> None:
        raise RuntimeError("a call of tensors on a GPU calls nobody back: its future does, in a stream")

    def get_future(self) -> Any:
        """Returns a torch.futures.Future of the results. Callbacks run at once, in streams that wait for the call."""
        if holders.is_asking(self):
            return Future()
        if self._future is None:
            self._future = Future(devices=[self._gpu.device])
            with cuda.stream(self._gpu.stream):
                self._future.set_result(self._results)
        return self._future

    def is_success(self) -> bool:
        return self.is_over() and self._error is None

    def get_duration(self) -> float:
        raise RuntimeError("the time of calls on GPUs is not measured")

    _get_duration = get_duration


def on_host(tensor: Tensor) -> Tensor:
    """Returns a contiguous tensor, or a contiguous copy, in host memory, which messages require."""
    return tensor.contiguous().cpu() if is_on_gpu(tensor) else tensor.contiguous()


def room_on_host(tensor: Tensor) -> tuple[Tensor, Callable[[], None] | None]:
    """Returns host memory for data that a tensor receives, and a function that copies them to the tensor; None if the
    memory is the tensor's own. Waits for the current stream's work on a tensor on a GPU."""
    if not is_on_gpu(tensor):
        return room_for_one(tensor)
    cuda.current_stream(tensor.device).synchronize()
    room = torch.empty(tensor.shape, dtype=tensor.dtype)

    def finish() -> None:
        tensor.copy_(room)
        cuda.current_stream(tensor.device).synchronize()

    return room, finish


class Calls:
    """Calls of one group, of tensors on the host or on its GPU. A mixin for a class of torch's."""

    _comm: Communicator
    _gpu: Gpu | None = None

    def _on_gpu(self, device: torch.device) -> Gpu:
        """Returns the group's GPU. The first call sets it, and is collective."""
        if self._gpu is None:
            self._gpu = Gpu(self._comm, device)
        elif device.index not in (None, self._gpu.device.index):
            raise ValueError(f"the group uses {self._gpu.device}, this tensor is on {device}")
        return self._gpu

    def _ready(self, tensor: Tensor) -> Tensor:
        if is_on_gpu(tensor):
            self._on_gpu(tensor.device).follow()
        return tensor

    def _elements(self, tensor: Tensor) -> Buffer:
        return elements(self._ready(tensor))

    def _raw(self, tensor: Tensor) -> Buffer:
        return raw(self._ready(tensor))

    def _work(self, parts: Sequence[Request | Work], results: Any, finish: Callable[[], None] | None = None,
              in_background: bool = False) -> Work:
        if self._gpu is not None and any(part.on_gpu for part in parts):
            return GpuWork(self._gpu, parts, results, finish)
        return Work(parts, results, finish, in_background)
