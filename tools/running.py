"""Shared code of scripts that measure: programs of the build, messages, launching of MPI programs, tables."""
import argparse
import contextlib
import json
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys

sys.dont_write_bytecode = True

ROOT = pathlib.Path(__file__).resolve().parent.parent
TERRACE = os.environ.get("TERRACE", str(ROOT / "build/tools/terrace"))
# Removed from the environment: programs started from here would report an unknown variable of the library.
BENCH = os.environ.pop("TERRACE_BENCH", str(ROOT / "build/bench/terrace-bench"))
VCLUSTER = str(ROOT / "tools/vcluster")
# Open MPI's own ring for large messages, and its hierarchical collectives, as words for mpirun.
RING = ["--mca", "coll_tuned_use_dynamic_rules", "1", "--mca", "coll_tuned_allreduce_algorithm", "4"]
HAN = ["--mca", "coll_han_priority", "100", "--mca", "coll_adapt_priority", "90", "--mca", "coll_han_allreduce_up_module",
       "1", "--mca", "coll_han_reduce_up_module", "1", "--mca", "coll_han_bcast_up_module", "1"]
SETTINGS = {"default": [], "ring": RING, "HAN": HAN}  # of Open MPI; each needs a separate run


class Failure(Exception):
    """Ends the program with a message: status 1, something failed; 2, bad usage or input."""

    def __init__(self, message, status=1):
        super().__init__(message)
        self.status = status


def run_main(name, main):
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # nohup
            signal.signal(number, lambda number, _: sys.exit(128 + number))  # runs cleanup code
    try:
        sys.exit(main())
    except Failure as failure:
        print(f"{name}: {failure}", file=sys.stderr)
        sys.exit(failure.status)
    except OSError as problem:
        print(f"{name}: {problem}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)


def parser_of(name, text, examples):
    """Returns the argument parser of a script that measures."""
    return argparse.ArgumentParser(
        prog=name, description=text, allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=f"examples:\n{examples}\n"
               "exit codes: 0 success, 1 something failed or a result was wrong, 2 bad usage or input")


def say(text):
    print(text, flush=True)


def show(command, **how):
    say("+ " + shlex.join(map(str, command)))
    return subprocess.run(command, stdin=subprocess.DEVNULL, **how)


def require(*tools):
    for tool in tools:
        if not shutil.which(tool):
            raise Failure(f"{tool} is not built: meson setup build && ninja -C build", 2)


def machine_of(cluster):
    """Returns the output of `terrace topo` for a cluster file."""
    described = subprocess.run([TERRACE, "topo", cluster, "--json"], text=True, stdout=subprocess.PIPE)
    if described.returncode != 0:  # terrace has printed the reason
        raise Failure(f"no machine from {cluster}", 2)
    return json.loads(described.stdout)


def most_nics(machine):
    """Returns the largest number of NICs of a node."""
    nodes = [node for level in machine["levels"] for node in level.get("nics", {}).get("rates_bytes_per_s", [])]
    return max(map(len, nodes), default=1)


def has_several_nics(machine):
    return most_nics(machine) > 1


def make_plan(cluster, plan, *options):
    """Writes the plan, and the output of `terrace plan` to a .txt file beside it."""
    with open(plan.with_suffix(".txt"), "w") as summary:
        if subprocess.run([TERRACE, "plan", cluster, "-o", plan, *options], stdout=summary).returncode != 0:
            raise Failure(f"no plan for {cluster}", 2)


def simulated(plan, collective, size, algorithm=None):
    """Returns the output of `terrace simulate` for a call."""
    done = subprocess.run([TERRACE, "simulate", plan, "--bytes", str(size), "--collective", collective,
                           *(["--algorithm", algorithm] if algorithm else []), "--json"],
                          text=True, capture_output=True)
    if done.returncode != 0:
        raise Failure(f"no prediction: {done.stderr.strip()}")
    return json.loads(done.stdout)


def vcluster_that_is_up():
    try:
        return json.loads(pathlib.Path("/run/terrace-vcluster/state.json").read_text()).get("name", "?")
    except (OSError, ValueError):
        return None


@contextlib.contextmanager
def emulated(cluster, wanted=True):
    """Emulates the cluster on this machine if `wanted`, and removes it at the end."""
    if wanted and show([VCLUSTER, "up", cluster], stdout=sys.stderr).returncode != 0:
        raise Failure("the cluster cannot be emulated here; it says above why not")
    try:
        yield
    finally:
        if wanted:
            subprocess.run([VCLUSTER, "down"], stdout=subprocess.DEVNULL)


def run(printed, command):
    """Runs a command, and appends its output to a file."""
    with open(printed, "a") as file:
        if show(command, stdout=file, stderr=file).returncode != 0:
            raise Failure(f"that failed; what it printed is in {printed}")


@contextlib.contextmanager
def planned(out, name, cluster, launch, wanted=True, words=()):
    """Emulates the cluster if `wanted`, measures its links, and plans only from these. Yields the plan, and the file
    for output of programs. `words` are more arguments of terrace-bench --links."""
    links, plan, log = (out / f"{name}.{end}" for end in ("links.yaml", "plan.yaml", "txt"))
    log.unlink(missing_ok=True)
    with emulated(cluster, wanted):
        run(log, [*launch, BENCH, "--links", "--topology", cluster, "-o", links, *words])
        make_plan(links, plan)
        yield plan, log


def aligned(rows):
    widths = [max(map(len, column)) for column in zip(*rows)]
    return "".join("  ".join(f"{cell:>{width}}" for cell, width in zip(row, widths)).rstrip() + "\n" for row in rows)


def markdown(rows):
    """Returns a table; the first row is its head."""
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]]) + "\n"


def size_text(size):
    for factor, unit in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if size % factor == 0:
            return f"{size // factor} {unit}"
    return f"{size} B"
