#!/usr/bin/env python3
"""Ranks are killed while docs/examples/survive.py trains with torch: the others go on, with the losses of a run that
nothing disturbs.

usage: torch_failure_test.py PACKAGE_DIRECTORY LIBTERRACE [--nodes] [--steps N] [--curves FILE.csv]

Of four ranks on this machine one is killed. With --nodes, torchrun is started with --max-restarts 0 on each node of
topologies/two-by-four, which tools/vcluster emulates, and the agent and the ranks of node n1 are killed. Exit status
77, with the reason: torch is missing, or nodes cannot be emulated here.
"""
import argparse
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True

ROOT = pathlib.Path(__file__).resolve().parents[2]
VCLUSTER = str(ROOT / "tools/vcluster")
STATE = pathlib.Path("/run/terrace-vcluster/state.json")
PROGRAM = str(ROOT / "docs/examples/survive.py")
LINE = re.compile(r"step (\d+) ranks (\d+) loss (\S+) at (\S+)")


def leave_out(why):
    print(f"left out: {why}")
    sys.exit(77)


class Training:
    """Processes that train, by command and environment. The first one has rank 0, and torch's store."""

    def __init__(self, commands):
        self.directory = tempfile.TemporaryDirectory()
        self.output = pathlib.Path(self.directory.name) / "output"
        with open(self.output, "w") as out:
            self.children = [subprocess.Popen(command, stdout=out, stderr=out, stdin=subprocess.DEVNULL, env=there)
                             for command, there in commands]

    def said(self):
        return self.output.read_text()

    def made(self):
        """(ranks, loss, time) by step, as rank 0 has told."""
        return {int(step): (int(ranks), float(loss), float(at)) for step, ranks, loss, at in LINE.findall(self.said())}

    def wait_for(self, step, patience=120):
        end = time.monotonic() + patience
        while step not in self.made():
            assert time.monotonic() < end and not self.children[0].poll(), f"no step {step}:\n{self.said()}"
            time.sleep(0.05)

    def end(self):
        for child in self.children:
            child.terminate()  # an agent would wait up to 300 s for the other nodes' ranks
        for child in self.children:
            try:
                child.wait(timeout=20)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()


class OnThisMachine:
    """Four ranks without agents."""

    ranks, left = 4, 3

    def __init__(self, environment):
        self.environment = environment

    def start(self, steps):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            there = dict(self.environment, MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free.getsockname()[1]),
                         WORLD_SIZE=str(self.ranks))
        return Training([([sys.executable, PROGRAM, str(steps), "0.05"], dict(there, RANK=str(rank)))
                         for rank in range(self.ranks)])

    def kill(self, job):
        job.children[-1].kill()


class OnNodes:
    """torchrun's agents, one on each emulated node."""

    ranks, left = 8, 4

    def __init__(self, environment):
        self.nodes, self.environment = json.loads(STATE.read_text())["nodes"], environment

    def start(self, steps):
        meeting = f"{self.nodes[0]['addresses'][0]}:29500"
        commands = [[VCLUSTER, "exec", node["host"], "--", sys.executable, "-m", "torch.distributed.run", "--nnodes",
                     str(len(self.nodes)), "--nproc-per-node", str(node["ranks"]), "--max-restarts", "0",
                     "--rdzv-backend", "c10d", "--rdzv-endpoint", meeting, "--local-addr", node["addresses"][0],
                     PROGRAM, str(steps), "0.05"] for node in self.nodes]
        return Training([(command, self.environment) for command in commands])

    def kill(self, job):
        command = ["ip", "netns", "pids", self.nodes[-1]["netns"]]
        for pid in subprocess.run(command, text=True, capture_output=True, check=True).stdout.split():
            os.kill(int(pid), signal.SIGKILL)


def train(place, steps, kill_at=None):
    job = place.start(steps)
    try:
        if kill_at is not None:
            job.wait_for(kill_at)
            place.kill(job)
        job.wait_for(steps)
        return job.made(), job.said()
    finally:
        job.end()


def compare(place, undisturbed, disturbed, said, steps, kill_at):
    assert sorted(undisturbed) == sorted(disturbed) == list(range(1, steps + 1)), said
    counts = [disturbed[step][0] for step in range(1, steps + 1)]
    assert set(counts[:kill_at]) == {place.ranks} and counts[-1] == place.left, counts
    assert sorted(counts, reverse=True) == counts and "has died" in said, said
    first = counts.index(place.left) + 1
    pause = disturbed[first][2] - disturbed[first - 1][2]
    print(f"step {first} was the first one of {place.left} ranks, {pause:.2f} s after the step before")
    print(f"{'step':>6}{'ranks':>7}{'loss':>10}{'undisturbed':>13}")
    for step in sorted({1, *range(10, steps + 1, 10), first - 1, first, first + 1, steps}):
        print(f"{step:>6}{disturbed[step][0]:>7}{disturbed[step][1]:>10.6f}{undisturbed[step][1]:>13.6f}")
    most = max(abs(disturbed[step][1] - undisturbed[step][1]) for step in undisturbed)
    print(f"losses differ by {most:.1e} at most")
    assert most < 1e-4, most


def bring_up(environment):
    if os.geteuid() != 0:
        leave_out("emulated nodes take root")
    end = time.monotonic() + 60  # another test may have some
    while True:
        up = subprocess.run([VCLUSTER, "up", str(ROOT / "topologies/two-by-four/cluster.yaml")], text=True,
                            capture_output=True, env=environment)
        if up.returncode == 0:
            return
        if "is up already" not in up.stderr or time.monotonic() > end:
            leave_out(f"no emulated nodes here: {up.stderr.strip()}")
        time.sleep(1)


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].split("\n")[0])
    parser.add_argument("package", type=pathlib.Path)
    parser.add_argument("library", type=pathlib.Path)
    parser.add_argument("--nodes", action="store_true")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--curves", type=pathlib.Path)
    asked = parser.parse_args()
    if subprocess.run([sys.executable, "-c", "import torch.distributed as d; d.shrink_group"],
                      capture_output=True).returncode:
        leave_out("no torch here that can shrink groups")
    library = asked.library.absolute()
    environment = dict(os.environ, PYTHONPATH=str(asked.package.absolute()), LIBTERRACE=str(library),
                       TERRACE_LOG="off", UCX_LOG_LEVEL="fatal", TORCH_CPP_LOG_LEVEL="ERROR", OMP_NUM_THREADS="1")
    if asked.nodes:
        bring_up(dict(environment, TERRACE=str(library.parents[2] / "tools/terrace")))
    try:
        place, kill_at = (OnNodes if asked.nodes else OnThisMachine)(environment), asked.steps // 2
        undisturbed, _ = train(place, asked.steps)
        disturbed, said = train(place, asked.steps, kill_at)
    finally:
        if asked.nodes:
            subprocess.run([VCLUSTER, "down"], capture_output=True)
    if asked.curves:
        asked.curves.write_text("step,ranks,loss,undisturbed\n" + "".join(
            f"{step},{ranks},{loss},{undisturbed[step][1]}\n" for step, (ranks, loss, _) in sorted(disturbed.items())))
    compare(place, undisturbed, disturbed, said, asked.steps, kill_at)


if __name__ == "__main__":
    main()
