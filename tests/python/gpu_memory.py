"""Memory of the stand-in module (tests/support/gpu_module.cpp) as buffers and tensors of a GPU. It is host memory, so
a test that passes with it shows nothing about a GPU."""
import contextlib
import ctypes
import os

MODULE = ctypes.CDLL(os.environ["TERRACE_GPU_MODULE"], mode=ctypes.RTLD_GLOBAL)
MODULE.terrace_test_device_memory.restype = ctypes.c_void_p
MODULE.terrace_test_device_memory.argtypes = [ctypes.c_size_t]


class GpuArray:
    """Floats with a __cuda_array_interface__."""

    def __init__(self, values):
        self.address = MODULE.terrace_test_device_memory(max(4 * len(values), 1))
        self._memory = (ctypes.c_float * len(values)).from_address(self.address)
        self._memory[:] = values
        self.__cuda_array_interface__ = {"shape": (len(values),), "typestr": "<f4", "data": (self.address, False),
                                         "version": 3, "strides": None}

    def __iter__(self):
        return iter(self._memory)


class FakeCuda:
    """Replaces the functions of torch.cuda that terrace.torch calls. `log` has the streams' operations, in order."""

    def __init__(self):
        self.log, self.captures = [], False
        self.now = self.main = FakeStream(self, "main")

    def ExternalStream(self, address, device):
        assert address
        return FakeStream(self, "own")

    def current_device(self):
        return 0

    def is_current_stream_capturing(self):
        return self.captures

    def current_stream(self, device=None):
        return self.now

    @contextlib.contextmanager
    def stream(self, stream):
        before, self.now = self.now, stream
        yield
        self.now = before

    def Event(self):
        return FakeEvent(self)


class FakeStream:
    def __init__(self, cuda, name):
        self.cuda, self.name = cuda, name

    def wait_stream(self, other):
        self.cuda.log.append(f"{self.name} waits for {other.name}")

    def wait_event(self, event):
        self.cuda.log.append(f"{self.name} waits for an event of {event.stream.name}")

    def synchronize(self):
        self.cuda.log.append(f"the host waits for {self.name}")


class FakeEvent:
    def __init__(self, cuda):
        self.cuda, self.stream, self.is_reached = cuda, None, True

    def record(self, stream):
        self.stream = stream
        self.cuda.log.append(f"event on {stream.name}")

    def query(self):
        assert not self.cuda.captures, "torch's capture mode forbids questions about events"
        return self.is_reached


def tensor_class():
    """Returns a class of torch tensors that claim to be on cuda:0. A function, since torch may be missing."""
    import torch
    from torch.utils._pytree import tree_flatten, tree_map
    owned = []

    def is_ours(host):
        return any(a <= host.data_ptr() < a + n for a, n in owned)

    class GpuTensor(torch.Tensor):
        @staticmethod
        def __new__(cls, host):
            if not is_ours(host):
                size = max(host.numel() * host.element_size(), 1)
                address = MODULE.terrace_test_device_memory(size)
                owned.append((address, size))
                memory = torch.frombuffer((ctypes.c_char * size).from_address(address), dtype=torch.uint8)
                there = memory[:host.numel() * host.element_size()].view(host.dtype).view(host.shape)
                host = there.copy_(host)
            made = torch.Tensor._make_wrapper_subclass(cls, host.shape, strides=host.stride(), dtype=host.dtype,
                                                       device="cuda:0")
            made.host = host
            return made

        def data_ptr(self):
            return self.host.data_ptr()

        # __torch_dispatch__ would be too late, since torch's own methods need the GPU before.
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            kwargs = dict(kwargs or {})
            if func.__name__ in ("__get__", "is_contiguous", "numel", "element_size"):
                return super().__torch_function__(func, types, args, kwargs)
            if func.__name__ == "cpu":
                return args[0].host.clone()
            first = next(x for x in tree_flatten(args)[0] if isinstance(x, torch.Tensor))
            device = torch.device(kwargs.pop("device", None) or first.device)
            is_there = device.type == "cuda" and isinstance(first, cls)
            plain = tree_map(lambda x: x.host if isinstance(x, cls) else x, (args, kwargs))
            made = func(*plain[0], **plain[1])
            return tree_map(lambda x: cls(x) if is_there and isinstance(x, torch.Tensor) else x, made)

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            raise NotImplementedError(f"{func} of a GPU")

    return GpuTensor
