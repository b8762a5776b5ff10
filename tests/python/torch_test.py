#!/usr/bin/env python3
"""torch.distributed over Terrace: results of every collective, methods of Work, errors.

usage: torch_test.py PACKAGE_DIRECTORY LIBTERRACE [RANKS [CHECK...]]
"""
import doctest
import importlib
import json
import os
import pathlib
import pkgutil
import shutil
import subprocess
import sys
import tempfile
from datetime import timedelta

from torch_ranks import PACKAGE, check, dist, equal, main, torch

import terrace
import terrace.torch

OLD = not hasattr(dist, "split_group")  # torch 1.13, which lacks some features


@check
def reductions(rank, size):
    total = size * (size + 1) // 2
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int8,
                  torch.uint8, torch.complex64):
        data = torch.full((5,), rank + 1, dtype=dtype)
        dist.all_reduce(data)
        equal(data, [total] * 5)
    for op, wanted in [(dist.ReduceOp.MAX, size), (dist.ReduceOp.MIN, 1), (dist.ReduceOp.AVG, (size + 1) / 2)]:
        data = torch.tensor([rank + 1.0])
        dist.all_reduce(data, op)
        equal(data, [wanted])
    bits = torch.tensor([1 << rank])
    dist.all_reduce(bits, dist.ReduceOp.BOR)
    equal(bits, [(1 << size) - 1])
    flag = torch.tensor([rank == 0, True])
    dist.all_reduce(flag, dist.ReduceOp.MIN)
    equal(flag, [size == 1, True])
    scaled, by = torch.ones(2), dist._make_nccl_premul_sum(float(rank))
    if hasattr(by, "factor"):  # torch 1.13 hides it
        dist.all_reduce(scaled, by)
        equal(scaled, [total - size] * 2)
    columns = torch.arange(6.0).view(2, 3).t()  # a view that is not contiguous
    dist.all_reduce(columns)
    equal(columns, (torch.arange(6.0).view(2, 3) * size).t())
    rooted = torch.tensor([rank + 1.0])
    dist.reduce(rooted, 1)
    assert rank != 1 or rooted.item() == total
    out = torch.empty(2)
    dist.reduce_scatter(out, [torch.full((2,), float(r)) for r in range(size)])
    equal(out, [rank * size] * 2)
    dist.reduce_scatter_tensor(out, torch.arange(2.0 * size))
    equal(out, [2 * rank * size, (2 * rank + 1) * size])


@check
def moves(rank, size):
    data = torch.tensor([7.0 if rank == size - 1 else 0.0])
    dist.broadcast(data, size - 1)
    equal(data, [7])
    every = [torch.empty(2, 1) for _ in range(size)]
    dist.all_gather(every, torch.full((2, 1), float(rank)))
    equal(torch.cat(every).view(-1), [r for r in range(size) for _ in range(2)])
    flat = torch.empty(size, dtype=torch.int64)
    dist.all_gather_into_tensor(flat, torch.tensor([rank]))
    equal(flat, range(size))
    into = [torch.empty(1) for _ in range(size)] if rank == 0 else None
    dist.gather(torch.tensor([float(rank)]), into)
    assert rank != 0 or torch.cat(into).tolist() == list(range(size))
    if hasattr(dist, "gather_single"):  # torch 2.15
        dist.gather_single(torch.tensor([float(rank), 0.5]), flat := torch.empty(2 * size) if rank == 1 else None, 1)
        assert rank != 1 or flat.tolist() == [x for r in range(size) for x in (r, 0.5)]
    own = torch.empty(1)
    dist.scatter(own, [torch.tensor([10.0 * r]) for r in range(size)] if rank == 0 else None)
    equal(own, [10 * rank])
    out = torch.empty(size)
    dist.all_to_all_single(out, torch.arange(float(size)) + 10 * rank)
    equal(out, [10 * r + rank for r in range(size)])
    splits = [r + 1 for r in range(size)]  # rank r gets r + 1 elements of each
    out = torch.empty((rank + 1) * size)
    dist.all_to_all_single(out, torch.full((sum(splits),), float(rank)), [rank + 1] * size, splits)
    equal(out, [r for r in range(size) for _ in range(rank + 1)])
    outs = [torch.empty(r + rank + 1) for r in range(size)]
    dist.all_to_all(outs, [torch.full((r + rank + 1,), float(rank)) for r in range(size)])
    equal(torch.cat(outs), [r for r in range(size) for _ in range(r + rank + 1)])


@check
def objects(rank, size):
    got = [None] * size
    dist.all_gather_object(got, {"rank": rank, "text": "x" * (100 * rank)})
    assert [g["rank"] for g in got] == list(range(size))
    what = [("a", 1)] if rank == 0 else [None]
    dist.broadcast_object_list(what)
    assert what == [("a", 1)]


@check
def messages(rank, size):
    after, before = (rank + 1) % size, (rank - 1) % size
    work, word = dist.isend(torch.tensor([float(rank)]), after, tag=3), torch.empty(1)
    assert dist.recv(word, before, tag=3) == before
    work.wait()
    equal(word, [before])
    both = [dist.P2POp(dist.isend, torch.tensor([float(rank)]), after), dist.P2POp(dist.irecv, word, before)]
    for work in dist.batch_isend_irecv(both):
        work.wait()
    equal(word, [before])


@check
def works_and_futures(rank, size):
    data = [torch.full((1000,), float(i)) for i in range(20)]
    works = [dist.all_reduce(d, async_op=True) for d in data]
    told = []
    futures = [w.get_future().then(lambda f: told.append(f.value()[0][0].item())) for w in works[:10]]
    for work in reversed(works):
        work.wait()
    torch.futures.wait_all(futures)
    assert sorted(told) == [i * size for i in range(10)], told
    for i, d in enumerate(data):
        equal(d, [i * size] * 1000)
    dist.barrier()
    if not OLD:
        dist.monitored_barrier(timeout=timedelta(seconds=20))
    many = [torch.ones(i + 1) for i in range(5)]
    if not OLD:
        with dist._coalescing_manager():
            for m in many:
                dist.all_reduce(m)
        equal(torch.cat(many), [size] * 15)


@check
def works_answer(rank, size):
    work = dist.all_reduce(torch.ones(1), async_op=True)
    work.wait()
    assert work.is_completed() and work.is_success() and work.exception() is None
    assert work._get_duration() > 0 and work.result()[0].item() == size
    for number in range(2):
        if rank == 0:
            words = [torch.zeros(1) for _ in range(size - 1)]
            assert sorted(dist.recv(w) for w in words) == list(range(1, size))
            assert sorted(w.item() for w in words) == list(range(1, size))
        else:
            dist.send(torch.tensor([float(rank)]), 0)
        dist.barrier()  # a receive from any rank accepts messages of the next round, too
    if rank == 0 and size > 1:
        work, word = dist.irecv(word := torch.zeros(1)), word
        work.wait()
        assert work._source_rank() == word.item()
    elif rank == 1:
        dist.send(torch.ones(1), 0)


@check
def profiles_have_events(rank, size):
    if OLD:
        return  # torch 1.13 does not show whether a profiler runs
    with torch.autograd.profiler.profile(record_shapes=True) as profile:
        dist.all_reduce(torch.ones(3, 2))
        dist.broadcast(torch.ones(4), 0, async_op=True).wait()
        dist.all_gather([torch.ones(1) for _ in range(size)], torch.ones(1))
    events = {e.name: e for e in profile.function_events if e.name.startswith("terrace:")}
    assert sorted(events) == ["terrace:all_gather", "terrace:all_reduce", "terrace:broadcast"], sorted(events)
    assert all(e.is_async for e in events.values())
    assert events["terrace:all_reduce"].input_shapes == [[3, 2]]


@check
def the_flight_recorder_has_calls(rank, size):
    recorder = torch._C._distributed_c10d
    if not hasattr(recorder, "FlightRecorderHook"):
        return  # this torch records only calls of Gloo and NCCL
    dist.all_reduce(torch.ones(3, 2))
    last = json.loads(recorder._dump_fr_trace_json(backend="terrace"))["entries"][-1]
    assert (last["profiling_name"], last["input_sizes"]) == ("terrace:all_reduce", [[3, 2]]), last


@check
def monitored_barriers_name_who_is_missing(rank, size):
    if OLD:
        return  # torch 1.13 has it only for Gloo
    group = dist.new_group()
    dist.monitored_barrier(group, timedelta(seconds=20))
    try:
        if rank != 1:
            dist.monitored_barrier(group, timedelta(seconds=0.5), wait_all_ranks=True)
        assert rank == 1 or size == 1
    except RuntimeError as e:
        assert ("Rank 1 failed to pass" if rank == 0 else f"Rank {rank} successfully reached") in str(e), e
    dist.barrier()


@check
def errors_say_who_and_where(rank, size):
    groups = [dist.new_group(timeout=timedelta(seconds=1))]
    if hasattr(dist, "set_timeout"):  # torch 2.15
        groups.append(dist.new_group())
        dist.set_timeout(timedelta(seconds=1), groups[1])
    for group in groups if rank == 0 and size > 1 else ():
        try:
            dist.all_reduce(torch.ones(1), group=group)
            raise AssertionError("nothing was raised")
        except RuntimeError as e:
            assert "rank 0 on " in str(e) and "timeout in all_reduce: timed out after 1 s" in str(e), e
            assert "stage 0" in str(e) or "has not made this call" in str(e), e
            assert e.rank == 0 and e.host
    if not OLD:
        last = dist.new_group(list(range(size))[-2:], timeout=timedelta(seconds=1))
        if size > 2 and rank == size - 1:
            try:
                dist.all_reduce(torch.ones(1), group=last)
                raise AssertionError("nothing was raised")
            except RuntimeError as e:
                assert f"waiting for rank 0 (rank {size - 2} of the world)" in str(e), e
    dist.barrier()


@check
def a_store_of_torch_makes_a_communicator(rank, size):
    place = [tempfile.mkdtemp() if rank == 0 else None]
    dist.broadcast_object_list(place)
    with terrace.create(dist.FileStore(f"{place[0]}/meeting", size), rank, size) as comm:
        comm.allreduce(data := torch.tensor([rank + 1.0]))
    equal(data, [size * (size + 1) // 2])
    dist.barrier()
    if rank == 0:
        shutil.rmtree(place[0])


@check
def docstrings_show_what_happens(rank, size):
    tried = 0
    for module in pkgutil.iter_modules(terrace.torch.__path__) if rank == 0 else ():
        result = doctest.testmod(importlib.import_module(f"terrace.torch.{module.name}"))
        assert result.failed == 0, module
        tried += result.attempted
    assert rank > 0 or tried > 0


@check
def the_bench_writes_the_times_of_each_round(rank, size):
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "times.json"
        command = ["torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "terrace.bench", "--sizes",
                   "4KiB", "--dtype", "bfloat16", "--calls", "2", "--rounds", "3", "--json", str(file)]
        if rank == 0:
            said = subprocess.run([sys.executable, "-m", *command], env={**os.environ, "PYTHONPATH": PACKAGE},
                                  text=True, capture_output=True, check=True).stdout
            assert "all_reduce of bfloat16" in said and "results: right" in said, said
            assert [(row, name, len(times)) for row, name, times in json.loads(file.read_text())] == [
                ("4 KiB", "terrace", 3), ("4 KiB", "gloo", 3)]


@check
def sparse(rank, size):
    mine = torch.sparse_coo_tensor([[rank, size]], [[1.0, 2.0], [3.0, 4.0]], (size + 1, 2))
    dist.all_reduce(mine)
    wanted = torch.tensor([[1.0, 2.0]] * size + [[3.0 * size, 4.0 * size]])
    equal(mine.to_dense(), wanted)


@check
def tensors_of_other_devices_are_refused_by_name(rank, size):
    for buffer in (terrace.torch.tensors.elements, terrace.torch.tensors.raw):
        try:
            buffer(torch.ones(2, device="meta"))
            raise AssertionError("nothing was raised")
        except TypeError as e:
            assert "this one is on meta" in str(e), e


@check
def errors_are_raised(rank, size):
    unknown = getattr(torch, "uint16", torch.qint8)
    for wrong, kind in [(lambda: dist.all_reduce(torch.empty(2, dtype=unknown)), TypeError),
                        (lambda: dist.all_to_all_single(torch.empty(size + 1), torch.empty(size + 1)), RuntimeError)]:
        try:
            wrong()
        except kind:
            continue
        raise AssertionError("nothing was raised")
    data = torch.ones(1)
    dist.all_reduce(data)
    equal(data, [size])


if __name__ == "__main__":
    main()
