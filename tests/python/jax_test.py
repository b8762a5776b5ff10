#!/usr/bin/env python3
"""JAX over Terrace, on ranks of jax.distributed: sums inside of jit, their derivatives and order; meshes by a plan.

usage: jax_test.py PACKAGE_DIRECTORY LIBTERRACE [CHECK...]
"""
import importlib.util
import os
import socket
import sys
import tempfile
import traceback

RANKS, DEVICES = 3, 2
CLUSTER = """
terrace_topology: 1
name: three
levels:
  - {name: node, size: 2, fabric: shm, hosts: [tux2, tux0, tux1]}
  - {name: cluster, size: 3, fabric: ethernet, bandwidth: 10 Gbit/s}
"""
CHECKS = []


def check(function):
    CHECKS.append(function)
    return function


def equal(got, wanted):
    assert (np.asarray(got) == np.asarray(wanted)).all(), f"{got} is not {wanted}"


def fails_with(kind, text, function, *arguments):
    try:
        function(*arguments)
    except kind as e:
        assert text in str(e), e
    else:
        raise AssertionError(f"no error: {text}")


def slow(x):
    m = jnp.full((400, 400), x)
    return jax.lax.fori_loop(0, 5, lambda _, m: (m @ m) / jnp.max(m @ m), m)[0, 0] * x


@check
def sums_inside_and_outside_of_jit(comm, rank):
    x = jnp.arange(4.0) + rank
    for f in (lambda x: allreduce(x, comm), jax.jit(lambda x: allreduce(x, comm))):
        equal(f(x), [3, 6, 9, 12])
    mixed = jax.jit(lambda t: allreduce(t, comm, "max"))({"a": x, "b": (jnp.int32(rank), jnp.zeros((2, 0)))})
    equal(mixed["a"], [2, 3, 4, 5])
    equal(mixed["b"][0], 2)
    equal(allreduce(1.5, comm), 4.5)
    equal(jax.vmap(lambda x: allreduce(x, comm), in_axes=1)(jnp.ones((2, 3))), np.full((3, 2), 3))
    for name in ("float16", "bfloat16", "int8", "uint32", "complex64"):
        equal(allreduce(jnp.ones(5, name), comm).astype(complex), [3] * 5)
    equal(allreduce(jnp.array([rank == 0, False]), comm, "lor"), [True, False])


@check
def sums_inside_of_control_flow(comm, rank):
    def step(x, _):
        return allreduce(x, comm, "avg") * 2, x[0]
    equal(jax.jit(lambda x: jax.lax.scan(step, x, None, length=3))(jnp.full(2, rank + 1.0))[0], [16, 16])
    grown = jax.lax.while_loop(lambda x: x < 100, lambda x: allreduce(x, comm), jnp.int32(1))
    equal(grown, 243)
    equal(jax.lax.cond(grown > 0, lambda x: allreduce(x, comm), lambda x: x, 1), 3)


@check
def the_derivative_of_a_sum_is_the_sum_of_cotangents(comm, rank):
    def loss(x, op):
        return (rank + 1) * jnp.sum(allreduce((rank + 1) * x, comm, op) ** 2)
    # The sum is 6 x on each rank; cotangents are 2 (rank + 1) 6 x, and their sum is 72 x.
    x = jnp.array([1.0, -2.0])
    for transformed in (jax.grad(loss), jax.jit(jax.grad(loss), static_argnums=1)):
        equal(transformed(x, "sum"), 72 * (rank + 1) * x)
        equal(transformed(x, "avg"), 8 * (rank + 1) * x)
    kept = jax.checkpoint(lambda x: loss(x, "sum"))
    equal(jax.grad(kept)(x), 72 * (rank + 1) * x)
    equal(jax.jvp(lambda x: allreduce(x, comm), (x,), (jnp.full(2, float(rank)),))[1], [3, 3])
    partly = jax.grad(lambda a, b: sum(v.sum() for v in allreduce((a, b, jnp.int32(3)), comm)))
    equal(partly(x, x), [3, 3])
    fails_with(terrace.usage_error, 'the operation "max" has no derivative', jax.grad(loss), x, "max")


@check
def calls_keep_the_order_of_the_program(comm, rank):
    # On each rank the operands of different calls are ready first.
    @jax.jit
    def independent(x):
        return [allreduce((slow(x) if i % RANKS == rank else x) * (i + 1), comm) for i in range(9)]
    for _ in range(5):
        equal(independent(jnp.float32(1)), [3 * (i + 1) for i in range(9)])


@check
def errors_of_calls_come_out(comm, rank):
    small = jnp.ones(1, "float8_e5m2")
    fails_with(terrace.usage_error, 'there is no element type "float8_e5m2"', allreduce, small, comm)
    fails_with(jax.errors.JaxRuntimeError, "usage_error: allreduce: band is not defined for float32", allreduce,
               jnp.ones(1), comm, "band")
    part = comm.split(0)
    part.close()
    fails_with(jax.errors.JaxRuntimeError, "usage_error: the communicator is closed", allreduce, jnp.ones(1), part)


@check
def closing_waits_for_calls_in_flight(comm, rank):
    part = comm.split(0)
    step = jax.jit(lambda x: allreduce(slow(x), part, "avg"))
    x = jnp.float32(1)
    for _ in range(10):
        x = step(x)
    part.close()
    equal(x, 1)


@check
def devices_are_in_the_order_of_the_plan(comm, rank):
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(CLUSTER)
        file.flush()
        plan = terrace.plan(file.name)
    socket.gethostname = lambda: f"tux{rank}"
    found = terrace.jax.devices(plan)
    equal([[d.process_index for d in row] for row in found], [[2, 2], [0, 0], [1, 1]])
    mesh = jax.sharding.Mesh(found, ("cluster", "node"))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("cluster", "node"))
    x = jax.make_array_from_callback((3, 2), sharding, lambda at: np.arange(6.0).reshape(3, 2)[at])
    equal(jax.jit(jnp.sum, out_shardings=jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec()))(x), 15)
    equal(x.addressable_shards[0].data, [[2 * [1, 2, 0][rank]]])
    socket.gethostname = lambda: "other"
    fails_with(terrace.plan_error, "the plan has no host other", terrace.jax.devices, plan)
    fails_with(terrace.plan_error, "the plan is for 4 ranks, but JAX has 6 devices", terrace.jax.devices,
               terrace.plan("package:2 core:2"))


def run_rank(rank, port, directory):
    os.environ.update(TERRACE_BOOTSTRAP=f"file:{directory}", TERRACE_RANK=str(rank), TERRACE_SIZE=str(RANKS),
                      TERRACE_TIMEOUT="60", JAX_PLATFORMS="cpu",
                      XLA_FLAGS=f"--xla_force_host_platform_device_count={DEVICES}")
    global allreduce, jax, jnp, np, terrace
    import jax
    import jax.numpy as jnp
    import numpy as np

    import terrace.jax
    from terrace.jax import allreduce
    jax.distributed.initialize(f"127.0.0.1:{port}", RANKS, rank)
    comm = terrace.create()
    for function in CHECKS:
        if len(sys.argv) > 3 and function.__name__ not in sys.argv[3:]:
            continue
        function(comm, rank)
        if rank == 0:
            print("ok", function.__name__, flush=True)
    comm.close()
    jax.distributed.shutdown()


def main():
    os.environ["LIBTERRACE"] = sys.argv[2]
    sys.path.insert(0, sys.argv[1])
    if not importlib.util.find_spec("jax"):
        print("skipped: no jax here")
        sys.exit(77)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    children = []
    with tempfile.TemporaryDirectory() as shared:
        for rank in range(RANKS):
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    run_rank(rank, port, shared)
                    code = 0
                except BaseException:
                    print(f"rank {rank}:\n{traceback.format_exc()}", file=sys.stderr, flush=True)
                os._exit(code)
            children.append(child)
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    sys.exit(0 if codes == [0] * RANKS else 1)


if __name__ == "__main__":
    main()
