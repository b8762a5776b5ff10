#!/usr/bin/env python3
"""Training with torch over Terrace against training in one process: DDP and FSDP2.

usage: torch_training_test.py PACKAGE_DIRECTORY LIBTERRACE [RANKS [CHECK...]]
"""
import contextlib
import os
import shutil
import tempfile

from torch_ranks import batches, check, close, dist, equal, main, network, own_part, own_parts, same_on_all_ranks, torch, train

import terrace
from torch.nn.parallel import DistributedDataParallel

F = torch.nn.functional
OLD = not hasattr(dist, "split_group")  # torch 1.13, which lacks some features


@check
def ddp_trains_as_one_process(rank, size):
    joined = batches(50, size)
    alone = train(network(), joined)
    for cap in (25, 0.001):
        weights = train(DistributedDataParallel(network(), bucket_cap_mb=cap), own_parts(joined, rank))
        close(weights, alone)
        same_on_all_ranks(weights, size)


class Block(torch.nn.Module):
    """Block of a ResNet18 with few channels. GroupNorm replaces BatchNorm, since batches differ between ranks."""

    def __init__(self, inside, out, stride):
        super().__init__()
        self.first = torch.nn.Conv2d(inside, out, 3, stride, 1, bias=False)
        self.second = torch.nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.norms = torch.nn.ModuleList(torch.nn.GroupNorm(2, out) for _ in range(2))
        self.across = torch.nn.Conv2d(inside, out, 1, stride, bias=False) if stride > 1 else torch.nn.Identity()

    def forward(self, x):
        return F.relu(self.across(x) + self.norms[1](self.second(F.relu(self.norms[0](self.first(x))))))


def resnet18():
    torch.manual_seed(5)
    shape = [(4, 4, 1), (4, 4, 1), (4, 8, 2), (8, 8, 1), (8, 16, 2), (16, 16, 1), (16, 32, 2), (32, 32, 1)]
    return torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3, 1, 1), *(Block(*s) for s in shape), torch.nn.AdaptiveAvgPool2d(1),
                               torch.nn.Flatten(), torch.nn.Linear(32, 10)).double()


def digits(steps, size):
    try:
        from sklearn.datasets import load_digits
        found = load_digits()
        images, labels = torch.tensor(found.images[:, None] / 16), torch.tensor(found.target)
    except ImportError:
        torch.manual_seed(6)
        images, labels = torch.rand(1000, 1, 8, 8).double(), torch.randint(0, 10, (1000,))
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(7))
    return [(images[order[4 * size * i:][:4 * size]], labels[order[4 * size * i:][:4 * size]]) for i in range(steps)]


@check
def ddp_trains_a_resnet18(rank, size):
    joined = digits(50, size)
    close(train(DistributedDataParallel(resnet18()), own_parts(joined, rank)), train(resnet18(), joined))


class Transformer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(8)
        self.words = torch.nn.Embedding(20, 16)
        layer = torch.nn.TransformerEncoderLayer(16, 2, 32, dropout=0, batch_first=True)
        self.layers = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.out = torch.nn.Linear(16, 20)

    def forward(self, x):
        return self.out(self.layers(self.words(x)).mean(1))


@check
def ddp_trains_a_transformer(rank, size):
    torch.manual_seed(9)
    joined = [(torch.randint(0, 20, (4 * size, 6)), torch.randint(0, 20, (4 * size,))) for _ in range(50)]
    alone = train(Transformer().double(), joined)
    close(train(DistributedDataParallel(Transformer().double()), own_parts(joined, rank)), alone)


@check
def weights_have_the_same_bits_whatever_the_plan(rank, size):
    seen = []
    shapes = {1: ["package:1"], 3: ["package:3", "package:3 core:1"], 4: ["package:4", "package:2 core:2"],
              8: ["package:8", "package:2 core:4", "package:2 l3:2 core:2"]}.get(size, [f"package:{size}"])
    os.environ.update(TERRACE_REPRODUCIBLE="on", TERRACE_PLACEMENT="anywhere")
    with tempfile.TemporaryDirectory() as directory:
        os.environ["TERRACE_PLAN"] = os.path.join(directory, "plan.yaml")
        for shape in shapes:
            terrace.plan(shape, output=os.environ["TERRACE_PLAN"])
            group = dist.new_group()
            for cap in (25, 0.001, 0.0005):
                model = DistributedDataParallel(network().float(), process_group=group, bucket_cap_mb=cap)
                parts = [(x.float(), y) for x, y in own_parts(batches(10, size), rank)]
                seen.append(train(model, parts, 10))
            dist.destroy_process_group(group)
            os.remove(os.environ["TERRACE_PLAN"])
    for name in ("TERRACE_REPRODUCIBLE", "TERRACE_PLACEMENT", "TERRACE_PLAN"):
        del os.environ[name]
    assert all(torch.equal(s, seen[0]) for s in seen)


class Two(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.a, self.b = torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)

    def forward(self, x, first):
        return (self.a if first else self.b)(x).sum()


@check
def ddp_with_no_sync_and_unused_parameters(rank, size):
    model = DistributedDataParallel(Two(), find_unused_parameters=True)
    assert OLD or model._get_ddp_logging_data()["backend_name"] == "terrace"
    with model.no_sync():
        model(torch.ones(1, 3), True).backward()
    model(torch.ones(1, 3), rank == 0).backward()
    same_on_all_ranks(torch.cat([p.grad.reshape(-1) for p in model.parameters()]), size)
    close(model.module.a.bias.grad, torch.full((2,), (size + 1) / size), 1e-6)
    close(model.module.b.bias.grad, torch.full((2,), (size - 1) / size), 1e-6)


@check
def ddp_reduces_what_only_a_local_pass_used(rank, size):  # pytorch#69031
    if OLD:
        return  # torch 1.13 has the error
    model = DistributedDataParallel(Two(), find_unused_parameters=True)
    with model.no_sync():
        model(torch.full((1, 3), float(rank)), True).backward()
    model(torch.ones(1, 3), False).backward()
    close(model.module.a.weight.grad, torch.full((2, 3), (size - 1) / 2), 1e-6)
    close(model.module.b.weight.grad, torch.ones(2, 3), 1e-6)


@check
def ddp_says_that_a_parameter_is_not_used(rank, size):  # pytorch#43259
    model = DistributedDataParallel(Two())
    model(torch.ones(1, 3), True).backward()
    try:
        model(torch.ones(1, 3), True).backward()
        raise AssertionError("nothing was raised")
    except RuntimeError as e:
        assert "Expected to have finished reduction in the prior iteration" in str(e), e
    dist.barrier()


@check
def ddp_accumulates_in_a_static_graph(rank, size):  # pytorch#187732
    if OLD:
        return  # in torch 1.13 the assertion fails later, too
    for synchronizes_first in (True, False):
        model, alone = DistributedDataParallel(network(), static_graph=True), network()
        try:
            for number, (x, y) in enumerate(batches(9, size)):
                synchronizes = number % 2 == (0 if synchronizes_first else 1)
                with contextlib.nullcontext() if synchronizes else model.no_sync():
                    F.cross_entropy(model(own_part(x, rank)), own_part(y, rank)).backward()
                F.cross_entropy(alone(x), y).backward()
                if synchronizes:
                    for ours, wanted in zip(model.parameters(), alone.parameters()):
                        close(ours.grad, wanted.grad)
                    model.zero_grad()
                    alone.zero_grad()
        except RuntimeError as e:  # in torch 2.15, before any reduction
            assert not synchronizes_first and number == 0 and "expect_autograd_hooks_ INTERNAL ASSERT" in str(e), e


@check
def ddp_joins_with_uneven_inputs(rank, size):
    torch.manual_seed(4)
    model = DistributedDataParallel(torch.nn.Linear(2, 1))
    with model.join():
        for _ in range(3 + rank):
            model(torch.ones(1, 2)).sum().backward()
    total = torch.ones(1)
    dist.all_reduce(total)
    equal(total, [size])


@check
def ddp_broadcasts_buffers(rank, size):
    torch.manual_seed(10 + rank)
    model = DistributedDataParallel(torch.nn.Sequential(torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 1)))
    for _ in range(3):
        model(torch.randn(4, 3)).sum().backward()
    with torch.no_grad():
        model(torch.randn(4, 3))  # a forward pass broadcasts rank 0's buffers
    model.eval()
    model(torch.randn(4, 3)).sum().backward()
    assert model.module[0].num_batches_tracked.item() == 4


@check
def ddp_reduces_in_mixed_precision(rank, size):
    model = DistributedDataParallel(torch.nn.Linear(3, 2, dtype=torch.bfloat16))
    model(torch.ones(1, 3, dtype=torch.bfloat16)).sum().backward()
    assert model.module.weight.grad.dtype == torch.bfloat16
    with torch.autocast("cpu", torch.bfloat16):
        wide = DistributedDataParallel(torch.nn.Linear(3, 2))
        wide(torch.full((1, 3), float(rank))).sum().backward()
    close(wide.module.weight.grad, torch.full((2, 3), (size - 1) / 2), 1e-6)


@check
def fsdp2_trains_as_one_process(rank, size):
    try:
        from torch.distributed.fsdp import fully_shard
    except (ImportError, ValueError):  # torch 1.13 cannot with Python 3.11
        return
    joined = batches(10, size)
    model = network()
    fully_shard(model, mesh=dist.device_mesh.init_device_mesh("cpu", (size,)))
    train_parts = own_parts(joined, rank)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for x, y in train_parts:
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    weights = torch.cat([p.full_tensor().detach().reshape(-1) for p in model.parameters()])
    close(weights, train(network(), joined, 10))


@check
def checkpoints_come_back(rank, size):
    try:
        import torch.distributed.checkpoint as checkpoint
        from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
        from torch.distributed.fsdp import fully_shard
    except (ImportError, ValueError):  # torch 1.13
        return
    directory = [tempfile.mkdtemp() if rank == 0 else None]
    dist.broadcast_object_list(directory)

    def made(seed):
        torch.manual_seed(seed)
        model = torch.nn.Sequential(torch.nn.Linear(7, 5), torch.nn.Linear(5, 2))
        fully_shard(model, mesh=dist.device_mesh.init_device_mesh("cpu", (size,)))
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
        model(torch.full((1, 7), seed + rank + 1.0)).sum().backward()
        optimizer.step()
        return model, optimizer

    def all_of(model, optimizer):
        moments = [optimizer.state[p]["exp_avg"] for p in model.parameters()]
        return torch.cat([t.full_tensor().detach().reshape(-1) for t in (*model.parameters(), *moments)])

    first, second = made(1), made(2)
    assert not torch.equal(all_of(*first), all_of(*second))
    checkpoint.save(dict(zip(("model", "optimizer"), get_state_dict(*first))), checkpoint_id=directory[0])
    state = dict(zip(("model", "optimizer"), get_state_dict(*second)))
    checkpoint.load(state, checkpoint_id=directory[0])
    set_state_dict(*second, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    assert torch.equal(all_of(*first), all_of(*second))
    dist.barrier()
    if rank == 0:
        shutil.rmtree(directory[0])


if __name__ == "__main__":
    main()
