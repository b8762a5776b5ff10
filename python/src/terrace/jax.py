"""JAX over Terrace: reductions inside `jit` on processors, and devices in the order of a plan for a mesh."""
from __future__ import annotations

import functools
import json
import math
import socket
from typing import Any

import jax
import numpy as np
from jax._src import core, effects
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from terrace._buffers import Buffer
from terrace._errors import plan_error, usage_error
from terrace._planning import about
from terrace._xla import HANDLER, number_of_call
from terrace.communicator import Communicator
from terrace.reductions import ELEMENT_TYPES, AnyReduction, Reduction, number_of, reduction
from terrace.settings import AnyPlan

__all__ = ["allreduce", "devices"]


class _InOrder(effects.Effect):  # type: ignore[misc]
    """Keeps calls in the program's order, which is the same on all ranks."""


_IN_ORDER = _InOrder()
for _kind in (effects.ordered_effects, effects.lowerable_effects, effects.control_flow_allowed_effects,
              effects.custom_derivatives_allowed_effects, effects.remat_allowed_effects):
    _kind.add_type(_InOrder)


def allreduce(x: Any, comm: Communicator, op: AnyReduction = "sum") -> Any:
    """Returns the reduction over all ranks of an array, or of all arrays of a tree, which are joined. Collective.

    Works inside and outside `jit`, on processors. Threads of JAX make the calls in the program's order. Make other
    calls of the communicator after jax.effects_barrier(). The derivative of a sum is the sum of cotangents, that of an
    average their average; other operations have no derivative.
    """
    comm._before_close = jax.effects_barrier
    leaves, tree = jax.tree.flatten(jax.tree.map(jax.numpy.asarray, x))
    return jax.tree.unflatten(tree, _allreduce.bind(*leaves, comm=comm, by=reduction(op)))


_allreduce = Primitive("terrace_allreduce")
_allreduce.multiple_results = True
_allreduce.def_impl(jax.jit(_allreduce.bind, static_argnames=("comm", "by")))
_allreduce.def_effectful_abstract_eval(lambda *arrays, **_: (arrays, {_IN_ORDER}))


def _run(comm: Communicator, by: Reduction, arrays: list[tuple[int, str]], send: list[int], recv: list[int]) -> None:
    with comm.group():
        started = [comm.allreduce_async(Buffer(s, *array, None), Buffer(r, *array, None), by)
                   for s, r, array in zip(send, recv, arrays)]
    for request in started:
        request.wait()


def _lower(ctx: Any, *operands: Any, comm: Communicator, by: Reduction) -> Any:
    names = [{"bool": "boolean"}.get(a.dtype.name, a.dtype.name) for a in ctx.avals_in]
    for name in names:
        number_of(ELEMENT_TYPES, name, "element type")
    arrays = [(math.prod(a.shape), name) for a, name in zip(ctx.avals_in, names)]
    with_token = ctx.replace(avals_in=[*ctx.avals_in, core.abstract_token],
                             avals_out=[*ctx.avals_out, core.abstract_token])
    *results, token = jax.ffi.ffi_lowering("terrace_allreduce", has_side_effect=True)(
        with_token, *operands, ctx.tokens_in.get(_IN_ORDER),
        call=np.int64(number_of_call(functools.partial(_run, comm, by, arrays))))
    ctx.set_tokens_out(mlir.TokenSet({_IN_ORDER: token}))
    return results


def _of_tangents(tangents: Any, comm: Communicator, by: Reduction) -> list[Any]:
    """Reduces tangents or cotangents except symbolic zeros, which are the same on all ranks."""
    if by.op not in ("sum", "avg"):
        raise usage_error(f'the operation "{by.op}" has no derivative; there are those of sum and avg')
    is_zero = [isinstance(t, ad.Zero) for t in tangents]
    reduced = iter(_allreduce.bind(*(t for t, zero in zip(tangents, is_zero) if not zero), comm=comm, by=by))
    return [t if zero else next(reduced) for t, zero in zip(tangents, is_zero)]


jax.ffi.register_ffi_target("terrace_allreduce", jax.ffi.pycapsule(HANDLER), platform="cpu")
mlir.register_lowering(_allreduce, _lower, platform="cpu")
ad.primitive_jvps[_allreduce] = lambda values, tangents, **how: (
    _allreduce.bind(*values, **how), _of_tangents(tangents, **how))
ad.primitive_transposes[_allreduce] = lambda cotangents, *_, **how: _of_tangents(cotangents, **how)
batching.primitive_batchers[_allreduce] = lambda values, axes, **how: (_allreduce.bind(*values, **how), axes)


def devices(plan: AnyPlan) -> Any:
    """Returns the devices of all processes in the order of a plan's ranks, as an array with an axis for each level,
    outermost first: `jax.sharding.Mesh(devices(plan), ("rack", "node"))`. One axis if parts of a level differ in size.

    If the plan has host names, processes are found by these, which is collective; otherwise JAX's order is used.
    """
    machine = json.loads(about("export", plan, {"to": "json"}))
    found = jax.devices()
    if len(found) != machine["ranks"]:
        raise plan_error(f"the plan is for {machine['ranks']} ranks, but JAX has {len(found)} devices")
    places = _places(machine["hosts"]) if machine["hosts"] else [0] * jax.process_count()
    found = sorted(found, key=lambda d: (places[d.process_index], d.process_index, d.id))
    sizes = [set(level) for level in reversed(machine["shape"])]
    made: Any = np.empty(len(found), object)
    made[:] = found
    return made.reshape([size for level in sizes for size in level]) if all(len(s) == 1 for s in sizes) else made


def _places(hosts: list[str]) -> list[int]:
    """Returns the number of each process's node in the plan."""
    from jax.experimental import multihost_utils
    own = np.frombuffer(socket.gethostname().encode().ljust(256, b"\0"), np.uint8)
    every = np.asarray(multihost_utils.process_allgather(own)).reshape(-1, 256)
    names = [bytes(name).rstrip(b"\0").decode() for name in every]
    for name in names:
        if name not in hosts:
            raise plan_error(f"the plan has no host {name}; it has {', '.join(hosts)}")
    return [hosts.index(name) for name in names]
