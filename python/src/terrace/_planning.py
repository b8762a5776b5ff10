"""Planning with the program `terrace` that comes with the library: the same texts and messages."""
from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
from typing import Any, Iterator, NoReturn

from terrace._errors import error, input_error, usage_error
from terrace._library import HERE
from terrace.settings import AnyPlan, Plan


def program() -> str:
    """Returns the program in the wheel, in the build or prefix of LIBTERRACE, or on PATH, in this order."""
    places = [HERE / "terrace"]
    if named := os.environ.get("LIBTERRACE"):
        library = pathlib.Path(named).resolve()
        places += [up / folder / "terrace" for up in list(library.parents)[1:4] for folder in ("bin", "tools")]
    found = next((str(p) for p in places if os.access(p, os.X_OK) and p.is_file()), None) or shutil.which("terrace")
    if found is None:
        raise error("the program `terrace` is missing: it is part of the wheel and of an installed Terrace")
    return found


def _run(*arguments: str) -> str:
    done = subprocess.run([program(), *arguments], capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return done.stdout
    said = done.stderr.strip()
    place = re.match(r"(.+?):(?:(\d+):(\d+):)? ", said)
    if place is None or not any(place[1] == a for a in arguments):
        raise usage_error(said)
    made = input_error(said)
    made.file, made.line, made.column = place[1], int(place[2] or 0), int(place[3] or 0)
    raise made


@contextlib.contextmanager
def file_of(text: str) -> Iterator[str]:
    """Yields the path of a file with this text. The file is in no directory, so nothing is left after a kill."""
    with os.fdopen(os.memfd_create("terrace"), "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        yield f"/proc/{os.getpid()}/fd/{file.fileno()}"


def _flags(values: dict[str, object]) -> list[str]:
    """Returns options as words: hosts="a,b" is --hosts a,b; slurm_job=True is --slurm-job."""
    made: list[str] = []
    for name, value in values.items():
        if value is not None and value is not False:
            made += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
    return made


def plan(source: str | os.PathLike[str], *, output: str | os.PathLike[str] | None = None, **options: object) -> Plan:
    """Plans for a machine: a file of any format that `terrace plan` reads, or hwloc's notation.

    Options are those of `terrace plan`. The plan is written to `output` if given.

    >>> plan("package:2 core:4").ranks
    8
    >>> plan("package:2 core:4", ranks="nothing")
    Traceback (most recent call last):
    terrace._errors.usage_error: ...
    """
    text = _run("plan", os.fspath(source), "-o", "-" if output is None else os.fspath(output), *_flags(options))
    if output is not None:
        return Plan(output)
    with file_of(text) as file:
        return Plan(file)


def about(command: str, plan: AnyPlan, values: dict[str, object]) -> str:
    if not isinstance(plan, Plan):
        return _run(command, os.fspath(plan), *_flags(values))
    with file_of(plan.text) as file:
        return _run(command, file, *_flags(values))


def explain(plan: AnyPlan, *, bytes: str | int = "64MiB", collective: str = "allreduce", **options: object) -> str:
    """Explains a plan for one call: the output of `terrace explain`."""
    return about("explain", plan, {"bytes": bytes, "collective": collective, **options})


def simulate(plan: AnyPlan, *, bytes: str | int = "64MiB", collective: str = "allreduce",
             **options: object) -> dict[str, Any]:
    """Simulates a call of all ranks over the machine's links: the output of `terrace simulate --json`.

    >>> simulate(plan("package:2 core:4"), bytes="1MiB")["ranks"]
    8
    """
    made: dict[str, Any] = json.loads(
        about("simulate", plan, {"bytes": bytes, "collective": collective, "json": True, **options}))
    return made


def main() -> NoReturn:
    """Runs the command `terrace` of the wheel."""
    os.execv(program(), ["terrace", *sys.argv[1:]])
