"""Tensors on GPUs in two ranks of torch: collectives of all types, DDP compared with one process, a captured call.

usage: torch_on_gpu.py PACKAGE_DIRECTORY calls|ddp|graph

Starts its ranks, which share a GPU if there is only one. Exit status 77 without torch or a GPU.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

RANKS, STEPS = 2, 20


def calls(torch, dist, device):
    rank = dist.get_rank()
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.int64, torch.uint8):
        data = torch.full((1001,), rank + 1, dtype=dtype, device=device)
        dist.all_reduce(data)
        assert data.tolist() == [3] * 1001, dtype
        dist.all_reduce(data, dist.ReduceOp.MAX)
        assert data.tolist() == [3] * 1001, dtype
        mine = torch.full((7,), rank + 1, dtype=dtype, device=device)
        everything = torch.empty(14, dtype=dtype, device=device)
        dist.all_gather_into_tensor(everything, mine)
        assert everything.tolist() == [1] * 7 + [2] * 7, dtype
        dist.reduce_scatter_tensor(mine, everything)
        assert mine.tolist() == [2 * (rank + 1)] * 7, dtype
        dist.broadcast(mine, 1)
        assert mine.tolist() == [4] * 7, dtype
    dist.barrier()


def trained(torch, device, model, batches):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for batch in batches:
        optimizer.zero_grad()
        model(batch.to(device)).square().mean().backward()
        optimizer.step()
    return [p.detach().cpu() for p in model.parameters()]


def ddp(torch, dist, device):
    def model():
        torch.manual_seed(7)
        return torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.Tanh(), torch.nn.Linear(64, 8)).to(device)
    torch.manual_seed(11)
    batches = [torch.randn(16, 32) for _ in range(STEPS)]
    alone = trained(torch, device, model(), batches)
    own = [batch[8 * dist.get_rank():][:8] for batch in batches]
    together = trained(torch, device, torch.nn.parallel.DistributedDataParallel(model()), own)
    for one, other in zip(alone, together):
        assert torch.allclose(one, other, rtol=1e-4, atol=1e-5), (one - other).abs().max()


def graph(torch, dist, device):
    data, result = torch.ones(5001, device=device), torch.empty(5001, device=device)

    def call():
        result.copy_(data)
        dist.all_reduce(result)
    call()
    torch.cuda.synchronize()
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        call()
    for value in range(2, 6):
        data.fill_(value)
        captured.replay()
        assert result.tolist() == [RANKS * value] * 5001
    del captured


def be(rank, package, what, folder):
    sys.path.insert(0, package)
    import torch
    import torch.distributed as dist
    device = torch.device("cuda", rank % torch.cuda.device_count())
    torch.cuda.set_device(device)
    import terrace.torch  # noqa: F401: registers the back end
    dist.init_process_group("terrace", init_method=f"file://{folder}/store", rank=rank, world_size=RANKS, device_id=device)
    {"calls": calls, "ddp": ddp, "graph": graph}[what](torch, dist, device)
    dist.destroy_process_group()


def main():
    package, what = sys.argv[1:3]
    if len(sys.argv) > 3:
        return be(int(sys.argv[4]), package, what, sys.argv[3])
    try:
        import torch
    except ImportError as e:
        print(f"skipped: {e}")
        return 77
    if not torch.cuda.is_available():
        print("skipped: torch sees no GPU")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        all_ranks = [subprocess.Popen([sys.executable, pathlib.Path(__file__), package, what, folder, str(rank)],
                                      env={**os.environ, "NCCL_HOSTID": str(rank)}) for rank in range(RANKS)]
        return max(abs(rank.wait()) for rank in all_ranks)


if __name__ == "__main__":
    sys.exit(main())
