#!/usr/bin/env python3
"""Steps of an optimiser of the size of GPT-2, data-parallel, with mpi4py alone: a program for the drop-in.

    terrace run -n 4 --report report.json -- python3 optimiser_step.py --scale 4

148 arrays as GPT-2's smallest model has them, 498 MB divided by --scale. A step sums the gradients of all ranks, an
array at a time, and updates weights as Adam does. Gradients are small whole numbers, so that sums are exact.
"""
import argparse
import time

import numpy as np
from mpi4py import MPI

LAYERS, WIDTH = 12, 768


def counts():
    layer = [WIDTH, WIDTH, WIDTH * 3 * WIDTH, 3 * WIDTH, WIDTH * WIDTH, WIDTH, WIDTH, WIDTH, WIDTH * 4 * WIDTH,
             4 * WIDTH, 4 * WIDTH * WIDTH, WIDTH]
    return [50257 * WIDTH, 1024 * WIDTH] + LAYERS * layer + [WIDTH, WIDTH]


def gradient(count, step, rank):
    return ((np.arange(count, dtype=np.int64) * 7 + 3 * step + rank) % 13 - 6).astype(np.float32)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--scale", type=int, default=1)
    parser.add_argument("--steps", type=int, default=4, help="the first one is not timed")
    args = parser.parse_args()
    comm = MPI.COMM_WORLD
    sizes = [max(1, count // args.scale) for count in counts()]
    weights = [np.zeros(size, np.float32) for size in sizes]
    first = [np.zeros(size, np.float32) for size in sizes]
    second = [np.zeros(size, np.float32) for size in sizes]
    summing, begin = 0.0, time.perf_counter()
    for step in range(args.steps):
        if step == 1:
            comm.Barrier()
            summing, begin = 0.0, time.perf_counter()
        for w, m, v in zip(weights, first, second):
            g = gradient(w.size, step, comm.rank)
            called = time.perf_counter()
            comm.Allreduce(MPI.IN_PLACE, g)
            summing += time.perf_counter() - called
            g /= comm.size
            m += np.float32(0.1) * (g - m)
            v += np.float32(0.001) * (g * g - v)
            w -= np.float32(1e-3) * m / (np.sqrt(v) + np.float32(1e-8))
    seconds = time.perf_counter() - begin
    weight = sum(float(np.abs(w).sum(dtype=np.float64)) for w in weights)
    equal = comm.allreduce(weight, MPI.MAX) == comm.allreduce(weight, MPI.MIN)
    if comm.rank == 0:
        print(f"{len(sizes)} arrays of {4 * sum(sizes) / 1e6:.1f} MB, the sum of all is {weight:.6f}, "
              f"{'the same' if equal else 'NOT THE SAME'} on all ranks")
        timed = max(1, args.steps - 1)
        print(f"a step takes {seconds / timed:.3f} s, {summing / timed:.3f} s of them in allreduce")


main()
