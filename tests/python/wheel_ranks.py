#!/usr/bin/env python3
"""Tests an installed wheel: plans, ranks, errors of its libraries; with --ucx two processes."""
import array
import os
import sys
import tempfile

import terrace

plan = terrace.plan("package:2 core:2")


def body(comm):
    data = array.array("d", [comm.rank])
    comm.allreduce(data)
    return data[0]


assert terrace.loopback.run(plan, body) == [6.0] * 4
def is_refused(kind, function, *arguments, **named):
    try:
        function(*arguments, **named)
    except kind as e:
        print("refused, as it should be:", e)
    else:
        raise AssertionError(f"no {kind}")


with tempfile.TemporaryDirectory() as directory:
    with open(f"{directory}/bad.yaml", "w", encoding="utf-8") as file:
        file.write("a: [b")
    is_refused(terrace.input_error, terrace.Plan, file.name)
    is_refused(terrace.input_error, terrace.plan, file.name)
    if sys.argv[1:] == ["--ucx"]:
        os.environ.update(TERRACE_BOOTSTRAP=f"file:{directory}", TERRACE_SIZE="2", TERRACE_TIMEOUT="60")
        child = os.fork()
        os.environ["TERRACE_RANK"] = "1" if child == 0 else "0"
        with terrace.create() as comm:
            assert body(comm) == 1.0
            is_refused(terrace.usage_error, comm.allreduce, array.array("d", [0]), op="band")
        if child == 0:
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
print("ok", terrace.__version__)
