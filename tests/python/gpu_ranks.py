"""One rank of gpu_test.py, under mpirun: calls with buffers on the stand-in for a GPU, over UCX, with a store of files.

usage: gpu_ranks.py PACKAGE_DIRECTORY FOLDER plain|torch
"""
import array
import faulthandler
import os
import pathlib
import sys
from types import SimpleNamespace

sys.path.insert(0, sys.argv[1])
os.environ["STAND_IN_PACKAGE"] = sys.argv[1]
import terrace  # noqa: E402
from gpu_memory import MODULE, FakeCuda, GpuArray, tensor_class  # noqa: E402
from stand_in_test import C10dStore, Files  # noqa: E402

FOLDER = pathlib.Path(sys.argv[2])
RANK, SIZE = int(os.environ["OMPI_COMM_WORLD_RANK"]), int(os.environ["OMPI_COMM_WORLD_SIZE"])
ALL = sum(range(SIZE))
os.environ["NCCL_HOSTID"] = str(RANK)  # all ranks share one device


def refusal(error, call):
    try:
        call()
    except error as e:
        return str(e)
    raise AssertionError("accepted")


def plain():
    with terrace.create(C10dStore(Files(FOLDER)), RANK, SIZE) as comm:
        data = GpuArray([RANK, 2])
        assert "use_device()" in refusal(terrace.usage_error, lambda: comm.allreduce(data))
        missing = refusal(terrace.transport_error, lambda: comm.use_device(7 if RANK == 1 else 0))
        assert "rank 1: device 7 of 1" in missing, missing
        comm.use_device()
        assert comm.device_stream
        assert "has device 0" in refusal(terrace.usage_error, comm.use_device)
        comm.allreduce(data)
        assert list(data) == [ALL, 2 * SIZE]
        host = array.array("f", [RANK])
        comm.allreduce(host)
        assert host[0] == ALL
        whole, own = GpuArray([RANK] * (2 * SIZE)), GpuArray([0, 0])
        started = comm.reduce_scatter_async(whole, own)
        assert started.on_gpu
        started.wait()
        assert list(own) == [ALL, ALL]
        into = GpuArray([0] * sum(range(1, SIZE + 1)))
        comm.allgather(GpuArray([RANK] * (RANK + 1)), into, counts=range(1, SIZE + 1))
        assert list(into) == [r for r in range(SIZE) for _ in range(r + 1)]
        blocks = GpuArray([10 * RANK + r for r in range(SIZE)])
        turned = GpuArray([0] * SIZE)
        comm.alltoall(blocks, turned)
        assert list(turned) == [10 * r + RANK for r in range(SIZE)]
        text = refusal(terrace.usage_error, lambda: comm.send(data, (RANK + 1) % SIZE))
        assert "on a GPU" in text, text
        with comm.split(RANK % 2) as part:
            half = GpuArray([RANK])
            part.allreduce(half)
            assert list(half) == [sum(range(RANK % 2, SIZE, 2))]


def with_torch():
    import torch
    import torch.distributed as dist
    torch.cuda.device_count = torch.accelerator.device_count = lambda: 1
    import terrace.torch
    from terrace.torch import devices
    cuda = devices.cuda = FakeCuda()
    devices.Future = lambda devices=None: torch.futures.Future()
    there = tensor_class()
    op = SimpleNamespace(reduceOp=dist.ReduceOp.SUM, asyncOp=True, rootRank=1)

    def begin(name, **more):
        dist.init_process_group("terrace", init_method=f"file://{FOLDER}/{name}", rank=RANK, world_size=SIZE, **more)
        return dist.group.WORLD._get_backend(torch.device("cuda"))

    def shown(tensor):
        assert isinstance(tensor, there)
        return tensor.host.tolist()

    # A group gets the GPU with its first tensor there, or at creation.
    group = begin("without")
    first = there(torch.ones(1))
    assert not group._comm.has_device
    group.allreduce([first], op).wait()
    assert shown(first) == [SIZE] and group._comm.has_device
    dist.destroy_process_group()
    group = begin("with", device_id=torch.device("cuda:0"))
    is_backend = terrace.torch.groups.TerraceBackend is not None  # torch 2.14 and later
    assert group._comm.has_device == is_backend and group is dist.group.WORLD._get_backend(torch.device("cpu"))

    # Streams wait, but the host does not.
    cuda.log.clear()
    start = group._comm._start
    group._comm._start = lambda *a: (cuda.log.append("call"), start(*a))[1]
    data = there(torch.arange(3.) + RANK)
    work = group.allreduce([data], op)
    assert cuda.log == ["own waits for main", "call", "event on own"], cuda.log
    work.wait()
    assert cuda.log[-1] == "main waits for an event of own", cuda.log
    assert shown(data) == [ALL, ALL + SIZE, ALL + 2 * SIZE]
    assert work.is_completed() and work.is_success() and work.exception() is None
    assert work.get_future().wait() == [data]

    # Tensors that are not contiguous are copied; AVG, PREMUL_SUM, bool, bytes.
    square = there(torch.arange(4.).view(2, 2) + RANK)
    group.allreduce([square.t()], op).wait()
    assert shown(square) == [[ALL, ALL + SIZE], [ALL + 2 * SIZE, ALL + 3 * SIZE]]
    mean = there(torch.full((2,), float(RANK)))
    group.allreduce([mean], SimpleNamespace(reduceOp=dist.ReduceOp.AVG)).wait()
    assert shown(mean) == [ALL / SIZE] * 2
    if is_backend:  # older versions hide the factor
        scaled = there(torch.ones(2))
        group.allreduce([scaled], SimpleNamespace(reduceOp=dist._make_nccl_premul_sum(0.5))).wait()
        assert shown(scaled) == [SIZE / 2] * 2
    one, two = there(torch.tensor([1.])), there(torch.tensor([2., 3.]))
    group.allreduce_coalesced([one, two], op).wait()
    assert (shown(one), shown(two)) == ([SIZE], [2 * SIZE, 3 * SIZE])

    mine = there(torch.tensor([RANK, -RANK], dtype=torch.int16))
    rows = [there(torch.zeros(2, dtype=torch.int16)) for _ in range(SIZE)]
    group.allgather([rows], [mine], op).wait()
    assert [shown(r) for r in rows] == [[r, -r] for r in range(SIZE)]
    flat = there(torch.zeros(2 * SIZE, dtype=torch.int16))
    group.all_gather_single(flat, mine, op).wait()
    assert shown(flat) == [s * r for r in range(SIZE) for s in (1, -1)]
    out = there(torch.zeros(1))
    group.reduce_scatter([out], [[there(torch.tensor([float(RANK + r)])) for r in range(SIZE)]], op).wait()
    assert shown(out) == [ALL + SIZE * RANK]
    group.reduce_scatter_single(out, there(torch.full((SIZE,), float(RANK))), op).wait()
    assert shown(out) == [ALL]
    sent = there(torch.tensor([RANK]))
    group.broadcast([sent], op).wait()
    assert shown(sent) == [1]
    turned = there(torch.zeros(SIZE))
    group.all_to_all_single(turned, there(torch.arange(SIZE) + 10. * RANK), [], [], op).wait()
    assert shown(turned) == [10 * r + RANK for r in range(SIZE)]
    parts = there(torch.zeros(SIZE * (SIZE + 1) // 2))
    group.all_to_all_single(parts, there(torch.full((SIZE * (RANK + 1),), float(RANK))),
                            [r + 1 for r in range(SIZE)], [RANK + 1] * SIZE, op).wait()
    assert shown(parts) == [r for r in range(SIZE) for _ in range(r + 1)]

    # Messages go through host memory.
    got = there(torch.zeros(2))
    receiving = group.recv([got], (RANK - 1) % SIZE, 5)
    group.send([there(torch.full((2,), float(RANK)))], (RANK + 1) % SIZE, 5).wait()
    receiving.wait()
    assert shown(got) == [(RANK - 1) % SIZE] * 2

    # Host tensors work in the same group; parts have the GPU.
    here = torch.full((2,), float(RANK))
    dist.all_reduce(here)
    assert here.tolist() == [ALL] * 2
    cuda.log.clear()
    group.barrier(None).wait()
    assert cuda.log == ["own waits for main", "the host waits for own", "call"], cuda.log
    if is_backend:
        halves = [list(range(start, SIZE, 2)) for start in range(2)]
        part = group.split(dist.HashStore(), halves[RANK % 2], None)
        half = there(torch.tensor([float(RANK)]))
        part.allreduce([half], op).wait()
        assert shown(half) == [sum(halves[RANK % 2])]
        cuda.log.clear()
        ended, part._comm.abort = part._comm.abort, lambda: (cuda.log.append("abort"), ended())
        part.abort()
        assert cuda.log == ["abort", "the host waits for own"], cuda.log  # else it might wait for ever

    # During a capture no event is queried, and a captured call counts as complete.
    group.allreduce([data], op)
    cuda.captures = True
    captured = group.allreduce([data], op)
    captured.wait()
    assert captured.is_completed() and captured not in group._gpu._under_way
    cuda.captures = False

    # A work that is not complete keeps its memory, and a wait with a timeout ends.
    late = group.allreduce([data], op)
    late._reached.is_reached = False
    assert not late.is_completed() and late in group._gpu._under_way
    assert "0.05 s" in refusal(RuntimeError, lambda: late.wait(terrace.torch.work.timedelta(seconds=0.05)))
    late._reached.is_reached = True
    group.allreduce([data], op).wait()
    assert late not in group._gpu._under_way
    text = refusal(TypeError, lambda: group.allreduce([torch.empty(2, device="meta")], op))
    assert "this one is on meta" in text, text
    dist.destroy_process_group()


if __name__ == "__main__":
    faulthandler.dump_traceback_later(60, exit=True)  # if the rank hangs
    {"plain": plain, "torch": with_torch}[sys.argv[3]]()
    MODULE.MPI_Finalize()  # the module has initialized MPI
    (FOLDER / f"done.{RANK}").touch()
