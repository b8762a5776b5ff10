#!/usr/bin/env python3
"""DDP's communication hook and DistributedOptimizer over Terrace, against training in one process.

usage: torch_optimizer_test.py PACKAGE_DIRECTORY LIBTERRACE [RANKS [CHECK...]]
"""
import os
import re
import tempfile

from torch_ranks import (batches, check, close, dist, main, network, own_part, own_parts, same_on_all_ranks, torch,
                         train, weights_of)

import terrace
import terrace.torch as tt
from torch.nn.parallel import DistributedDataParallel

F = torch.nn.functional


@check
def the_hook_averages(rank, size):
    joined = batches(50, size)
    model = DistributedDataParallel(network(), bucket_cap_mb=0.001)
    model.register_comm_hook(None, tt.ddp_hook())
    weights = train(model, own_parts(joined, rank))
    close(weights, train(network(), joined))
    same_on_all_ranks(weights, size)


@check
def the_hook_rounds_on_the_wire(rank, size):
    cluster = ("terrace_topology: 1\nname: two\nlevels:\n"
               f"  - {{name: rack, size: {size}, fabric: ethernet, bandwidth: 1 Mbit/s, latency: 30 us}}\n")
    os.environ["TERRACE_PLACEMENT"] = "anywhere"
    with tempfile.TemporaryDirectory() as directory:
        with open(os.path.join(directory, "cluster.yaml"), "w") as file:
            file.write(cluster)
        plan = terrace.plan(file.name)
        torch.manual_seed(11)
        wide = [(torch.randn(4 * size, 64), torch.randint(0, 4, (4 * size,))) for _ in range(30)]

        def model():
            torch.manual_seed(12)
            return torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.Tanh(), torch.nn.Linear(512, 4))

        alone = train(model(), wide)
        away = []
        for feedback in (False, True):
            ddp = DistributedDataParallel(model())
            hook = tt.ddp_hook(wire="bfloat16", levels=["rack"], plan=plan, error_feedback=feedback)
            ddp.register_comm_hook(None, hook)
            weights = train(ddp, own_parts(wide, rank))
            same_on_all_ranks(weights, size)
            away.append((weights - alone).abs().max().item())
            assert away[-1] < 0.1, away
        assert size == 1 or away[0] > 1e-6, "nothing was rounded"
        try:
            tt.ddp_hook(wire="bfloat16", levels=["planet"], plan=plan)
            raise AssertionError("nothing was raised")
        except terrace.error as e:
            assert 'there is no level "planet"' in str(e), e
    del os.environ["TERRACE_PLACEMENT"]


def distributed(model, **options):
    plain = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    return tt.DistributedOptimizer(plain, model.named_parameters(), **options)


@check
def the_optimizer_trains_as_one_process(rank, size):
    joined = batches(50, size)
    alone = train(network(), joined)
    for options in ({}, {"bucket_bytes": 100}, {"op": tt.Sum}):
        model = network()
        optimizer = distributed(model, **options)
        assert isinstance(optimizer, torch.optim.SGD)
        if options.get("op") == tt.Sum:
            optimizer.param_groups[0]["lr"] /= size
        weights = train(model, own_parts(joined, rank), optimizer=optimizer)
        close(weights, alone)
        same_on_all_ranks(weights, size)


@check
def every_wrapper_trains_by_every_algorithm(rank, size):
    cluster = ("terrace_topology: 1\nname: flat\nlevels:\n"
               f"  - {{name: rack, size: {size}, fabric: ethernet, bandwidth: 1 Gbit/s, latency: 30 us}}\n")
    joined = batches(10, size)
    alone, seen = train(network(), joined), set()
    os.environ["TERRACE_PLACEMENT"] = "anywhere"
    with tempfile.TemporaryDirectory() as directory:
        with open(os.path.join(directory, "cluster.yaml"), "w") as file:
            file.write(cluster)
        for number in (1, 2, 3):
            plan = terrace.plan(file.name, candidate=number)
            seen.add(re.sub("(?s).*?\nallreduce:", "", plan.text))

            def ddp(model):
                os.environ["TERRACE_PLAN"] = os.path.join(directory, f"{number}.yaml")
                with open(os.environ["TERRACE_PLAN"], "w") as planned:
                    planned.write(plan.text)
                made = DistributedDataParallel(model, process_group=dist.new_group(), bucket_cap_mb=0.001)
                del os.environ["TERRACE_PLAN"]
                return made, None

            def hook(model):
                made = DistributedDataParallel(model, bucket_cap_mb=0.001)
                made.register_comm_hook(None, tt.ddp_hook(plan=plan))
                return made, None

            def optimizer(model):
                return model, distributed(model, plan=plan, bucket_bytes=200)

            for wrap in (ddp, hook, optimizer):
                model, steps_by = wrap(network())
                weights = train(model, own_parts(joined, rank), optimizer=steps_by)
                close(weights, alone)
                same_on_all_ranks(weights, size)
    del os.environ["TERRACE_PLACEMENT"]
    assert size == 1 or len(seen) == 3, "plans do not differ"


@check
def the_optimizer_compresses_and_accumulates(rank, size):
    joined = batches(20, size)
    alone = train(network(), joined, 20)
    model = network()
    close(train(model, own_parts(joined, rank), 20, distributed(model, compression=tt.Compression.bf16)), alone, 0.05)
    model, twice = network(), network()
    optimizer, plain = distributed(model, backward_passes_per_step=2), torch.optim.SGD(twice.parameters(), lr=0.1, momentum=0.9)
    for step in range(0, 20, 2):
        for net, chosen in ((model, [(own_part(x, rank), own_part(y, rank)) for x, y in joined[step:step + 2]]),
                            (twice, joined[step:step + 2])):
            for x, y in chosen:
                F.cross_entropy(net(x), y).backward()
        optimizer.step()
        plain.step()
        optimizer.zero_grad()
        plain.zero_grad()
    close(weights_of(model), weights_of(twice))


@check
def the_optimizer_reduces_sparse_gradients(rank, size):
    def model():
        torch.manual_seed(13)
        return torch.nn.Sequential(torch.nn.Embedding(30, 4, sparse=True), torch.nn.Flatten(), torch.nn.Linear(8, 3)).double()

    torch.manual_seed(14)
    joined = [(torch.randint(0, 30, (4 * size, 2)), torch.randint(0, 3, (4 * size,))) for _ in range(20)]
    for as_dense in (False, True):
        net, one = model(), model()
        optimizer = tt.DistributedOptimizer(torch.optim.SGD(net.parameters(), lr=0.1), net.named_parameters(),
                                            sparse_as_dense=as_dense)
        weights = train(net, own_parts(joined, rank), 20, optimizer)
        alone = train(one, joined, 20, torch.optim.SGD(one.parameters(), lr=0.1))
        close(weights, alone)
        assert net[0].weight.grad.is_sparse != as_dense


@check
def the_optimizer_says_what_is_wrong(rank, size):
    model = network()
    plain = torch.optim.SGD(model.parameters(), lr=0.1)
    for options, text in (({"op": tt.Adasum}, "Adasum is no operation"), ({"op": "max"}, "allowed: Average, Sum"),
                          ({"named_parameters": list(model.named_parameters())[:1]}, "lacks 3 parameters"),
                          ({"levels": ["rack"]}, "pass wire, too"), ({"wire": "int8"}, "pass plan, or set TERRACE_PLAN")):
        try:
            tt.DistributedOptimizer(plain, **options)
            raise AssertionError("nothing was raised")
        except (ValueError, terrace.usage_error) as e:
            assert text in str(e), e
    optimizer = distributed(model)
    x, y = batches(1, size)[0]
    F.cross_entropy(model(x), y).backward()
    try:
        optimizer.zero_grad()
        raise AssertionError("nothing was raised")
    except RuntimeError as e:
        assert "zero_grad() was called after backward()" in str(e), e
    optimizer.synchronize()
    with optimizer.skip_synchronize():
        optimizer.step()
    same_on_all_ranks(weights_of(model), size)


@check
def state_comes_from_one_rank(rank, size):
    torch.manual_seed(20 + rank)
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1 * (rank + 1))
    if rank == 0:
        model(torch.randn(4, 3)).sum().backward()
        optimizer.step()
    tt.broadcast_parameters(model.state_dict())
    tt.broadcast_optimizer_state(optimizer)
    same_on_all_ranks(weights_of(model), size)
    assert optimizer.param_groups[0]["lr"] == 0.1
    moments = torch.cat([s["exp_avg"].reshape(-1) for s in optimizer.state.values()])
    assert moments.numel() == weights_of(model).numel()
    same_on_all_ranks(moments, size)


if __name__ == "__main__":
    main()
