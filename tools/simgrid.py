"""The real runtime under SimGrid's MPI: builds bench/smpi and runs it on the platform of a plan."""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

from running import ROOT, TERRACE, Failure, say

BUILD = pathlib.Path(os.environ.get("TERRACE_SMPI_BUILD", ROOT / "build-smpi"))
PROGRAM = BUILD / "bench/smpi/terrace-smpi"

# Messages share links fairly at their full rates; nothing else costs time, computing included. Polling is free, as nobody
# polls. A message is on its way until it has been received. All shares are worked out anew at every event (Full): what
# SimGrid does otherwise, for those around the event alone, takes longer where all links hang together, and adds up rounding.
SETTINGS = {
    "network/model": "CM02", "network/bandwidth-factor": "1", "network/latency-factor": "1", "network/weight-S": "0",
    "network/TCP-gamma": "0", "network/crosstraffic": "0", "network/optim": "Full", "smpi/simulate-computation": "no",
    "smpi/send-is-detached-thresh": "0", "smpi/test": "0", "smpi/iprobe": "0", "smpi/wtime": "0",
    "smpi/grow-injected-times": "no", "smpi/display-timing": "no",
    "smpi/allgather": "bruck",  # what communicators are created by: others take millions of messages
    "contexts/stack-size": "1024",
    "surf/precision": "1e-8",  # events that are closer [s] happen together
}


def build():
    """bench/smpi, in a build folder of its own. Takes a few minutes the first time."""
    for tool in ("smpicxx", "smpirun", "meson", "ninja"):
        if not shutil.which(tool):
            raise Failure(f"{tool} is not there: tools/install-deps", 2)
    compiler = str(ROOT / "bench/smpi/c++")
    environment = {**os.environ, "CXX": f"ccache {compiler}" if shutil.which("ccache") else compiler, "CXXFLAGS": "",
                   "SMPI_PRETEND_CC": "1"}  # programs that Meson tries must run by themselves
    if not (BUILD / "build.ninja").exists():
        say(f"+ meson setup {BUILD} -Dmpi=smpi")
        done = subprocess.run(["meson", "setup", BUILD, ROOT, "-Dmpi=smpi", "-Dcuda=disabled"], env=environment, text=True,
                              capture_output=True)
        if done.returncode != 0:
            raise Failure(done.stdout + done.stderr)
    done = subprocess.run(["ninja", "-C", BUILD, "bench/smpi/terrace-smpi"], text=True, stdout=subprocess.PIPE)
    if done.returncode != 0:
        raise Failure(done.stdout)


def rates(plan):
    exported = subprocess.run([TERRACE, "export", plan, "--to", "json"], text=True, stdout=subprocess.PIPE)
    if exported.returncode != 0:
        raise Failure(f"{plan} cannot be exported", 2)
    return json.loads(exported.stdout)


def run(plan, arguments, settings=None):
    """Yields what terrace-smpi prints, call by call. `settings` go before SETTINGS."""
    ranks = rates(plan)["ranks"]
    with tempfile.TemporaryDirectory(prefix="terrace-smpi-") as folder:
        platform, hosts = pathlib.Path(folder) / "platform.xml", pathlib.Path(folder) / "hosts"
        if subprocess.run([TERRACE, "export", plan, "--to", "simgrid", "-o", platform],
                          stdout=subprocess.DEVNULL).returncode != 0:
            raise Failure(f"{plan} has no platform", 2)
        hosts.write_text("".join(f"rank{r}\n" for r in range(ranks)))
        command = ["smpirun", "-np", str(ranks), "-platform", platform, "-hostfile", hosts, "-no-privatize",
                   *(f"--cfg={key}:{value}" for key, value in {**SETTINGS, **(settings or {})}.items()), "--log=root.thres:critical", PROGRAM,
                   "--plan", plan, *arguments]
        with subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL) as process:
            for line in process.stdout:
                if line.startswith("{"):
                    yield json.loads(line)
                else:
                    say(line.rstrip())
    if process.returncode != 0:
        raise Failure(f"smpirun ended with status {process.returncode}")
