#!/usr/bin/env python3
"""Trains through the failure of a whole node: the other ranks go on from the step that their lowest rank has reached.

    torchrun --nnodes 2 --nproc-per-node 4 --max-restarts 0 --rdzv-backend c10d --rdzv-endpoint HOST:29500 survive.py

The node of HOST has torch's store and must survive. Arguments: steps, and seconds of pause after each.
"""
import os
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import terrace.torch

SAMPLES = 48  # of a step, dealt out to however many ranks there are


def batch(step):
    """This rank's part of the samples of a step."""
    inputs = torch.randn(SAMPLES, 16, generator=torch.Generator().manual_seed(step))
    targets = torch.sin(inputs[:, :1]) + inputs[:, 1:2] * inputs[:, 2:3]
    return [part.tensor_split(dist.get_world_size())[dist.get_rank()] for part in (inputs, targets)]


def begin(model, optimizer, step):
    """All ranks get the state of rank 0: of those that are left some may be a step ahead."""
    reached = torch.tensor([step])
    dist.broadcast(reached, 0)
    terrace.torch.broadcast_optimizer_state(optimizer)
    return DistributedDataParallel(model), int(reached)  # which broadcasts the parameters


def make_step(ddp, optimizer, step):
    """Returns the loss over all samples."""
    inputs, targets = batch(step)
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(ddp(inputs), targets)
    loss.backward()
    told = loss.detach()
    dist.all_reduce(told, dist.ReduceOp.AVG)
    optimizer.step()
    return told.item()


def train(steps, pause):
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    ddp, step = None, 0
    while step < steps:
        try:
            if failed := terrace.torch.failed_ranks():
                ddp = None
                dist.shrink_group(failed)  # the new group is torch's default one
            if ddp is None:
                ddp, step = begin(model, optimizer, step)
            loss = make_step(ddp, optimizer, step)
            step += 1
        except RuntimeError as e:
            failed = terrace.torch.failed_ranks()
            if not failed or dist.get_rank() in failed:
                raise  # something else, or the others go on without this rank
            print(f"step {step}: {str(e).splitlines()[0]}", file=sys.stderr, flush=True)
            continue
        if dist.get_rank() == 0:
            print(f"step {step} ranks {dist.get_world_size()} loss {loss:.6f} at {time.time():.3f}", flush=True)
        time.sleep(pause)


if __name__ == "__main__":
    torch.set_num_threads(1)
    dist.init_process_group("terrace")
    train(int(sys.argv[1]) if len(sys.argv) > 1 else 200, float(sys.argv[2]) if len(sys.argv) > 2 else 0)
    sys.stdout.flush()
    os._exit(0)  # a job that has lost ranks has no collective end
