#!/usr/bin/env python3
"""Ranks without MPI: processes that meet in a directory or by PMIx, and connections from other programs.

usage: processes_test.py PROGRAM [MPIRUN ...]       PROGRAM is tests/ucx/loop.cpp
"""
import fcntl
import os
import pathlib
import random
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

# The begin of UCX's TCP connections, and a message for a handler that does not exist: handler, length and words.
GREETING = struct.pack("<Q", 0xCAFEBABE12345678)
STRAY_MESSAGE = GREETING + struct.pack("<BI", 2, 16) + bytes(16)
PROGRAM, MPIRUN = sys.argv[1], sys.argv[2:]
del sys.argv[1:]
PROBES = 10_000


def listening_ports(pid):
    """Returns the ports on which a process listens, with the address of each, as in /proc/net/tcp."""
    own = set()
    for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        try:
            own.update(re.findall(r"socket:\[(\d+)\]", os.readlink(fd)))
        except OSError:  # closed meanwhile
            pass
    lines = pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]
    rows = [line.split() for line in lines]
    return {int(row[1].split(":")[1], 16): row[1].split(":")[0] for row in rows if row[3] == "0A" and row[9] in own}


def address_of(interface):
    """Returns the interface's IPv4 address in the form of /proc/net/tcp; None if it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        try:
            found = fcntl.ioctl(any_socket, 0x8915, struct.pack("256s", interface.encode()))  # SIOCGIFADDR
        except OSError:
            return None
    return f"{struct.unpack('=I', found[20:24])[0]:08X}"


class Processes(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name) / "meeting"

    def start(self, rank, size, *words, under=(), **variables):
        environment = {**os.environ, "TERRACE_BOOTSTRAP": f"file:{self.directory}", "TERRACE_RANK": str(rank),
                       "TERRACE_SIZE": str(size), "TERRACE_LOG": "off", **variables}
        child = subprocess.Popen([*under, PROGRAM, *words], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                 env={k: v for k, v in environment.items() if v is not None})
        self.addCleanup(lambda: (child.kill(), child.communicate()))
        return child

    def finish(self, child, status=0):
        out, err = child.communicate(timeout=120)
        self.assertEqual(child.returncode, status, out + err)
        return out, err

    def test_processes_meet_in_a_directory_and_again(self):
        for words in (["3", "20000"], ["3", "1000", "shm"]):
            for child in [self.start(rank, 4, *words) for rank in range(4)]:
                self.assertRegex(self.finish(child)[0], r"of 4: 3 right, 1 listening, \d+ connected")

    @unittest.skipIf(os.geteuid() != 0, "host names of its own take root")
    def test_levels_above_nodes_are_those_of_the_addresses(self):
        """Each process is a host. Hosts of one switch are neighbours in the machine."""
        def job(addresses):
            ranks = [self.start(rank, 4, "2", "1000", under=["unshare", "-u", "sh", "-c", f"hostname h{rank}; exec \"$@\"", "sh"],
                                TERRACE_LOG="info" if rank == 0 else "off", **variables)
                     for rank, variables in enumerate(addresses)]
            return "".join(self.finish(child)[1] for child in ranks)

        log = job([{"SLURM_TOPOLOGY_ADDR": f"top.{switch}.h{rank}", "SLURM_TOPOLOGY_ADDR_PATTERN": "switch.switch.node"}
                   for rank, switch in enumerate("abab")])
        self.assertRegex(log, r'"found at creation; leaf, spine by the job\'s addresses, rates assumed", 4 ranks \(2 x 2\)')
        log = job([{"TERRACE_TOPOLOGY_ADDR": f"r{rank}.h{rank}"} if rank != 2 else {} for rank in range(4)])
        self.assertIn('not all hosts have an address: host "h0" has "r0.h0", host "h2" has ""', log)
        self.assertRegex(log, r'"found at creation; cluster assumed", 4 ranks \(4\)')

    def test_processes_of_a_launcher_meet_by_pmix(self):
        if not MPIRUN:
            self.skipTest("no launcher with PMIx")
        done = subprocess.run([*MPIRUN, "-np", "3", PROGRAM, "2", "5000"], text=True, capture_output=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(len(re.findall(r"rank \d of 3: 2 right", done.stdout)), 3, done.stdout)

    def test_what_is_not_set_is_named(self):
        self.assertRegex(self.finish(self.start(0, 2, TERRACE_RANK=None), 1)[1], "TERRACE_RANK and TERRACE_SIZE")
        self.assertRegex(self.finish(self.start(0, 2, TERRACE_BOOTSTRAP=None), 1)[1], "pmix|PMIx")
        self.assertRegex(self.finish(self.start(5, 2), 1)[1], "rank 5 of 2")

    def test_ranks_that_do_not_come_are_named(self):
        for child in [self.start(rank, 4, TERRACE_TIMEOUT="1") for rank in (0, 1)]:
            self.assertRegex(self.finish(child, 1)[1], r"timed out after 1 s .* ranks (0, )?2-3 in .*meeting")

    def test_a_rank_that_dies_is_named_at_once(self):
        children = [self.start(rank, 3, "1000000", "2000") for rank in range(3)]
        for child in children:
            self.assertRegex(child.stdout.readline(), "runs")
        children[1].send_signal(signal.SIGKILL)
        messages = [self.finish(child, 1)[1] for child in (children[0], children[2])]
        self.assertRegex(messages[0] + messages[1], r"rank 1 on \S+ has died")

    def addresses(self, **variables):
        """Returns the addresses on which a job with all its ranks on this host listens."""
        children = [self.start(rank, 2, "1000000", "2000", **variables) for rank in range(2)]
        for child in children:
            self.assertRegex(child.stdout.readline(), "runs")
        found = {address for child in children for address in listening_ports(child.pid).values()}
        for child in children:
            child.kill()
        return found

    def test_the_address_listened_on_can_be_chosen(self):
        self.assertEqual(self.addresses(UCX_NET_DEVICES=None), {address_of("lo")})
        others = {name: address_of(name) for _, name in socket.if_nameindex() if name != "lo" and address_of(name)}
        if not others:
            self.skipTest("no other interface has an address")
        name, address = others.popitem()
        self.assertEqual(self.addresses(UCX_NET_DEVICES=name), {address})

    def test_ports_can_be_chosen(self):
        children = [self.start(rank, 2, "1000000", "2000", TERRACE_PORTS="22000-22009") for rank in range(2)]
        for child in children:
            self.assertRegex(child.stdout.readline(), "runs")
        ports = {port for child in children for port in listening_ports(child.pid)}
        self.assertEqual(len(ports), 2)
        self.assertLessEqual(ports, set(range(22000, 22010)))
        for child in [self.start(rank, 2, "1", "2000", TERRACE_PORTS="22000", TERRACE_BOOTSTRAP=f"file:{self.directory}2")
                      for rank in range(2)]:
            self.assertRegex(self.finish(child, 1)[1], r"of its ports 22000-22000 \(TERRACE_PORTS\) are free")

    def test_ucx_has_nothing_to_say_where_it_uses_no_tcp(self):
        for transports in ("self", "^tcp"):
            self.assertEqual(self.finish(self.start(0, 1, "1", "1000", UCX_TLS=transports))[1], "")

    def test_garbage_port_scans_and_other_jobs_disturb_nobody(self):
        children = [self.start(rank, 2, "1000000", "2000") for rank in range(2)]
        for child in children:
            self.assertRegex(child.stdout.readline(), "runs")
        dice, tries = random.Random(7), 0
        ports = [port for child in children for port in listening_ports(child.pid)]
        self.assertEqual(len(ports), 2)
        while tries < PROBES:
            for port in ports:
                with socket.create_connection(("127.0.0.1", port), timeout=10) as probe:
                    try:
                        kind = tries % 6
                        if kind == 1:
                            probe.sendall(dice.randbytes(dice.randrange(1, 5000)))
                        elif kind == 2:
                            probe.sendall(b"GET / HTTP/1.0\r\n\r\n")
                        elif kind == 3:
                            probe.sendall(bytes(dice.randrange(1, 64)))
                        elif kind == 4:
                            probe.sendall(GREETING)
                        elif kind == 5:
                            probe.sendall(STRAY_MESSAGE)
                    except (BrokenPipeError, ConnectionResetError):
                        pass  # closed while the test sends
                tries += 1
        print(f"{tries} connections", file=sys.stderr)
        time.sleep(0.2)
        for child in children:
            self.assertIsNone(child.poll(), "ended")
        # Both still work: when one is killed, the other gets an error.
        children[0].send_signal(signal.SIGKILL)
        self.assertRegex(self.finish(children[1], 1)[1], r"rank 0 on \S+ has died")


if __name__ == "__main__":
    unittest.main()
