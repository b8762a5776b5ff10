"""Communicators in addition to those of torch's groups: for hooks and optimisers, with plans that round on the wire."""
from __future__ import annotations

import itertools
import os
import re
import textwrap
from typing import Any, Sequence

import torch.distributed as dist

from terrace import _planning
from terrace._errors import error, usage_error
from terrace._stores import C10dStore
from terrace.communicator import Communicator, create
from terrace.settings import AnyPlan, Options, Plan, plan_of

_numbers: dict[Any, itertools.count[int]] = {}  # by group: numbers of its communicators


def cluster_of(plan: Plan) -> str:
    """Returns the cluster file of the machine of a plan.

    >>> import terrace
    >>> print(cluster_of(terrace.plan("package:2 core:2")).splitlines()[0])
    terrace_topology: 1
    """
    found = re.search(r"^topology:\n((?:  .*\n)+)", plan.text, re.M)
    assert found is not None
    lines = textwrap.dedent(found[1]).splitlines()
    return "\n".join(["terrace_topology: 1", *(line for line in lines if not line.startswith("fingerprint:"))]) + "\n"


def networks_of(plan: Plan) -> list[str]:
    """Returns the names of the levels that are not shared memory."""
    levels = re.findall(r"^    - \{name: ([^,}]+),.*?fabric: ([^,}]+)", plan.text, re.M)
    return [name for name, fabric in levels if fabric != "shm"]


def planned_with_wire(plan: Plan, wire: str, levels: Sequence[str] | None) -> Plan:
    """Returns the plan that `terrace plan --wire` makes for the same machine. Without levels, all networks round."""
    named = list(levels) if levels is not None else networks_of(plan)
    if not named:
        raise usage_error(f"the machine of the plan \"{plan.name}\" has no network whose sums could be rounded")
    with _planning.file_of(cluster_of(plan)) as file:
        return _planning.plan(file, wire=",".join(f"{name}={wire}" for name in named))


def _from_rank_0(store: C10dStore, rank: int, make: Any) -> str:
    """Returns the result of make() on rank 0. If it fails, all ranks raise its error."""
    if rank == 0:
        try:
            text: str = make()
        except Exception as e:
            store.put("plan", f"-{e}".encode())
            raise
        store.put("plan", b"+" + text.encode())
        return text
    said = store.wait("plan").decode()
    if said[0] == "-":
        raise error(f"rank 0 could not plan: {said[1:]}")
    return said[1:]


def communicator_beside(group: Any = None, *, wire: str | None = None, levels: Sequence[str] | None = None,
                        plan: AnyPlan | None = None) -> Communicator:
    """Makes a communicator of the ranks of one of torch's groups, whatever its back end. Collective.

    With `wire`, sums cross the networks `levels` (by default all) in this type. Rank 0 then plans for the machine of
    `plan`, by default that of TERRACE_PLAN. @raises usage_error if there is neither
    """
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    whole = group if group is not None else dist.group.WORLD
    number = next(_numbers.setdefault(whole, itertools.count()))
    c10d: Any = dist.distributed_c10d
    groups = c10d._world.pg_map if hasattr(c10d, "_world") else c10d._pg_map  # torch 1.13
    name = getattr(whole, "group_name", "")  # a shrunk group has the store of the whole group
    store = C10dStore(dist.PrefixStore(f"terrace/{name}/{number}", groups[whole][1]))
    if wire is None and levels is not None:
        raise usage_error("levels round where wire says in which type: pass wire, too")
    options = Options(from_environment=True, threads="any")
    if wire is None:
        return create(store, rank, size, plan=plan, options=options)
    source = plan if plan is not None else os.environ.get("TERRACE_PLAN")
    if not source:
        raise usage_error("wire requires to know the networks: pass plan, or set TERRACE_PLAN")
    options.set("wire", "on")
    text = _from_rank_0(store, rank, lambda: planned_with_wire(plan_of(source), wire, levels).text)
    with _planning.file_of(text) as file:
        return create(store, rank, size, plan=Plan(file), options=options)
