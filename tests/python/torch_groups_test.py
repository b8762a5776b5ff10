#!/usr/bin/env python3
"""Groups of torch.distributed over Terrace: parts, meshes, torch's debugging, how torch finds the back end.

usage: torch_groups_test.py PACKAGE_DIRECTORY LIBTERRACE [RANKS [CHECK...]]
"""
import gc
import os
import pathlib
import subprocess
import sys
import tempfile
from datetime import timedelta

from torch_ranks import PACKAGE, check, dist, equal, main, torch

import terrace.torch

OLD = not hasattr(dist, "split_group")  # torch 1.13, which lacks some features


@check
def groups(rank, size):
    pair = dist.new_group([0, size - 1])
    if rank in (0, size - 1):
        data = torch.ones(1)
        dist.all_reduce(data, group=pair)
        equal(data, [2 if size > 1 else 1])
    every = dist.new_group()
    data = torch.ones(3)
    dist.all_reduce(data, group=every)
    equal(data, [size] * 3)
    if OLD:
        return
    mesh = dist.device_mesh.init_device_mesh("cpu", (size, 1), mesh_dim_names=("a", "b"))
    data = torch.ones(1)
    dist.all_reduce(data, group=mesh.get_group("a"))
    equal(data, [size])
    data = torch.ones(1)
    dist.all_reduce(data, group=mesh["b"].get_group())
    equal(data, [1])
    assert dist.get_backend(mesh.get_group("b")) == "terrace"
    if size % 2 == 0:
        mesh = dist.device_mesh.init_device_mesh("cpu", (2, size // 2), mesh_dim_names=("rows", "columns"))
        for name, wanted in (("rows", [rank % (size // 2), rank % (size // 2) + size // 2]),
                             ("columns", [rank // (size // 2) * (size // 2) + i for i in range(size // 2)])):
            every = torch.zeros(len(wanted), dtype=torch.int64)
            dist.all_gather_into_tensor(every, torch.tensor([rank]), group=mesh[name].get_group())
            equal(every, wanted)


@check
def distributed_tensors_change_their_layout(rank, size):
    try:
        from torch.distributed.tensor import Partial, Replicate, Shard, distribute_tensor
    except ImportError:  # torch before 2.5
        return
    mesh = dist.device_mesh.init_device_mesh("cpu", (size,))
    whole = torch.arange(2.0 * size * size).view(2 * size, size)
    sharded = distribute_tensor(whole, mesh, [Shard(0)])
    equal(sharded.to_local(), whole[2 * rank:2 * rank + 2])
    equal(sharded.redistribute(mesh, [Shard(1)]).to_local(), whole[:, rank:rank + 1])  # all_to_all
    equal(sharded.redistribute(mesh, [Replicate()]).to_local(), whole)
    equal((sharded.t() @ sharded).full_tensor(), whole.t() @ whole)  # partial sums
    assert (sharded.t() @ sharded).placements == (Partial(),)


@check
def split_groups(rank, size):
    if not hasattr(dist, "split_group") or terrace.torch.groups.TerraceBackend is None or size < 3:
        return
    part = dist.split_group(None, [[2, 0], [1]])  # other ranks are in no part
    if rank < 3:
        assert part.size() == (1 if rank == 1 else 2) and part.rank() == (1 if rank == 0 else 0)
        data = torch.tensor([float(rank)])
        dist.all_reduce(data, group=part)
        equal(data, [1 if rank == 1 else 2])
        dist.all_gather(every := [torch.zeros(1) for _ in range(part.size())], torch.tensor([float(rank)]), group=part)
        equal(torch.cat(every), [1] if rank == 1 else [2, 0])
    else:
        assert part is dist.GroupMember.NON_GROUP_MEMBER
    dist.barrier()


@check
def debugging_in_detail_compares_calls(rank, size):
    if OLD:
        return  # this torch wraps only its own back ends
    dist.set_debug_level(dist.DebugLevel.DETAIL)
    group = dist.new_group(timeout=timedelta(seconds=20))
    gc.collect()  # torch's wrapper does not keep Python objects alive
    data = torch.ones(2)
    dist.all_reduce(data, group=group)
    equal(data, [size] * 2)
    if size > 1:
        try:
            dist.all_reduce(torch.ones(2 if rank else 3), group=group)
            raise AssertionError("nothing was raised")
        except RuntimeError as e:
            assert "mismatch between collectives" in str(e), e
    dist.set_debug_level(dist.DebugLevel.OFF)
    dist.barrier()


TOLD = """
import os, sys
sys.path.insert(0, sys.argv[1])
import torch, torch.distributed as dist, terrace.torch
dist.init_process_group("terrace", init_method=f"file://{sys.argv[2]}/meeting", rank=int(sys.argv[3]), world_size=2)
for number in range(5):
    dist.all_reduce(torch.ones(10))
dist.destroy_process_group()
"""


@check
def a_group_says_once_what_runs(rank, size):
    if rank > 0:
        return
    with tempfile.TemporaryDirectory() as directory:
        ranks = [subprocess.Popen([sys.executable, "-c", TOLD, PACKAGE, directory, str(r)], text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  env=dict(os.environ, TERRACE_LOG="info")) for r in range(2)]
        said = "".join(r.communicate(timeout=100)[0] for r in ranks)
    lines = [line for line in said.splitlines() if "2 ranks" in line]
    assert len(lines) == 1 and "transport shm in nodes, ucx; allreduce up to 8 KiB: node:2" in lines[0], said


ALONE = """
import torch, torch.distributed as dist, sys
more = {"device_id": torch.device("cpu:0")} if sys.argv[2] == "bound" else {}
dist.init_process_group("terrace", init_method=f"file://{sys.argv[1]}/meeting", rank=0, world_size=1, **more)
group, data = dist.new_group([0]), torch.ones(1)
dist.all_reduce(data, group=group)
print(dist.get_backend(group), data.item(), "terrace.torch" in sys.modules)
dist.destroy_process_group()
"""


@check
def torch_finds_the_back_end_by_itself(rank, size):
    if rank > 0 or terrace.torch.groups.TerraceBackend is None:
        return
    for how in ("unbound", "bound"):
        with tempfile.TemporaryDirectory() as directory:
            info = pathlib.Path(directory) / "terrace-0.1.0.dist-info"  # as the wheel has it
            info.mkdir()
            (info / "METADATA").write_text("Metadata-Version: 2.1\nName: terrace\nVersion: 0.1.0\n")
            (info / "entry_points.txt").write_text("[torch.distributed.backends]\nterrace = terrace.torch:register\n")
            done = subprocess.run([sys.executable, "-c", ALONE, directory, how], text=True, capture_output=True,
                                  check=False, env=dict(os.environ, PYTHONPATH=f"{PACKAGE}:{directory}"))
            assert done.stdout == "terrace 1.0 True\n", done.stdout + done.stderr


@check
def the_doctor_finds_what_would_trip_a_run(rank, size):
    if rank > 0:
        return
    run = [sys.executable, "-m", "terrace.torch.doctor"]
    for more, code, text in (({}, 0, "ok   UCX connects"), ({}, 0, "ok   variables: TERRACE_* are as they should be"),
                             ({"TERRACE_PLAN": "missing.yaml"}, 1, "FIX  missing.yaml: cannot be opened"),
                             ({"TERRACE_TIMOUT": "9"}, 1, "FIX  variables: TERRACE_TIMOUT is unknown")):
        there = {k: v for k, v in os.environ.items() if k != "TERRACE_PLAN"}
        done = subprocess.run(run, text=True, capture_output=True, check=False,
                              env={**there, "PYTHONPATH": PACKAGE, **more})
        assert done.returncode == code and text in done.stdout, done.stdout + done.stderr


if __name__ == "__main__":
    main()
