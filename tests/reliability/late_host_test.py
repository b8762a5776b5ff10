#!/usr/bin/env python3
"""If the ranks of one host are stopped by turns, the statistics of all ranks name the host.

usage: late_host_test.py TERRACE PACKAGE_DIRECTORY LIBTERRACE

Exit status 77: TERRACE_TEST_ALL is not set, or processes cannot have different host names, which requires root.
"""
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

RANKS, RANKS_OF_HOST, LATE_HOST = 8, 2, 2
TERRACE, PACKAGE, LIBRARY = sys.argv[1:4]
RANK = f"""
import array, os, sys, time
sys.path.insert(0, {PACKAGE!r})
import terrace
comm = terrace.create(options=terrace.Options(from_environment=True))
data, going = array.array("f", [1]) * 16384, array.array("i", [1])
ends = time.monotonic() + 6
print("ready", flush=True)
while going[0]:
    comm.allreduce(data)
    going[0] = time.monotonic() < ends
    comm.broadcast(going)
comm.close()
"""


def start(rank, folder):
    host = f"host{rank // RANKS_OF_HOST}"
    return subprocess.Popen(
        ["unshare", "--uts", "sh", "-c", f"hostname {host} && exec \"$0\" \"$@\"", sys.executable, "-c", RANK],
        stdout=subprocess.PIPE, text=True,
        env={**os.environ, "LIBTERRACE": LIBRARY, "TERRACE_BOOTSTRAP": f"file:{folder}/meeting", "TERRACE_RANK": str(rank),
             "TERRACE_SIZE": str(RANKS), "TERRACE_STATISTICS": f"{folder}/statistics"})


def main():
    if "TERRACE_TEST_ALL" not in os.environ:
        print("skipped: takes ten seconds; TERRACE_TEST_ALL=1 runs it")
        return 77
    if subprocess.run(["unshare", "--uts", "true"], capture_output=True).returncode != 0:
        print("skipped: host names of their own need root")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "meeting").mkdir()
        ranks = [start(rank, folder) for rank in range(RANKS)]
        try:
            for rank in ranks:
                assert rank.stdout.readline() == "ready\n"
            stopped = [ranks[LATE_HOST * RANKS_OF_HOST + i] for i in range(RANKS_OF_HOST)]
            for turn in range(40):
                late = stopped[turn // 10 % RANKS_OF_HOST]
                late.send_signal(signal.SIGSTOP)
                time.sleep(0.1)
                late.send_signal(signal.SIGCONT)
                time.sleep(0.02)
            assert [rank.wait(60) for rank in ranks] == [0] * RANKS
        finally:
            for rank in ranks:
                rank.kill()
        found = subprocess.run([TERRACE, "report", f"{folder}/statistics"], capture_output=True, text=True, check=True)
    print(found.stdout)
    assert f"verdict: host host{LATE_HOST} " in found.stdout
    return 0


sys.exit(main())
