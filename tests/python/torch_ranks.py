"""Runs checks on ranks that are forked after torch is imported, and that meet in a file. Programs that use it have the
arguments PACKAGE_DIRECTORY LIBTERRACE [RANKS [CHECK...]]. Exit status 77: torch is missing."""
import os
import sys
import tempfile
import traceback
from datetime import timedelta

PACKAGE = sys.argv[1]
os.environ["LIBTERRACE"] = sys.argv[2]
RANKS = int(sys.argv[3]) if len(sys.argv) > 3 else 3
sys.path.insert(0, PACKAGE)
try:
    import torch
    import torch.distributed as dist
except ImportError as e:
    print(f"skipped: {e}")
    sys.exit(77)
import terrace.torch  # noqa: E402, F401

torch.set_num_threads(1)
CHECKS = []


def check(function):
    CHECKS.append(function)
    return function


def equal(got, wanted):
    wanted = torch.as_tensor(wanted, dtype=got.dtype)
    assert torch.equal(got.cpu(), wanted), f"{got} is not {wanted}"


def network():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(10, 50), torch.nn.Tanh(), torch.nn.Linear(50, 4)).double()


def batches(steps, size):
    torch.manual_seed(2)
    return [(torch.randn(4 * size, 10).double(), torch.randint(0, 4, (4 * size,))) for _ in range(steps)]


def weights_of(model):
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()])


def train(model, parts, steps=50, optimizer=None):
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for x, y in parts[:steps]:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    return weights_of(model)


def own_part(x, rank):
    return x[4 * rank:4 * rank + 4]


def own_parts(parts, rank):
    return [(own_part(x, rank), own_part(y, rank)) for x, y in parts]


def close(got, wanted, most=1e-5):
    assert (got - wanted).abs().max() <= most, (got - wanted).abs().max()


def same_on_all_ranks(tensor, size):
    every = [torch.empty_like(tensor) for _ in range(size)]
    dist.all_gather(every, tensor)
    assert all(torch.equal(e, tensor) for e in every)


def run_checks(rank, directory):
    dist.init_process_group("terrace", init_method=f"file://{directory}/meeting", rank=rank, world_size=RANKS,
                            timeout=timedelta(seconds=60))
    failed = False
    for function in CHECKS:
        if len(sys.argv) > 4 and function.__name__ not in sys.argv[4:]:
            continue
        try:
            function(rank, RANKS)
        except Exception:
            failed = True
            print(f"rank {rank}: {function.__name__}\n{traceback.format_exc()}", file=sys.stderr, flush=True)
            break  # ranks may be in different checks now
        if rank == 0:
            print("ok", function.__name__, flush=True)
    if not failed:
        dist.destroy_process_group()
    sys.stdout.flush()
    os._exit(1 if failed else 0)


def main():
    with tempfile.TemporaryDirectory() as shared:
        children = []
        for number in range(RANKS):
            child = os.fork()
            if child == 0:
                run_checks(number, shared)
            children.append(child)
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    sys.exit(0 if codes == [0] * RANKS else 1)
