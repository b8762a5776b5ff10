#!/usr/bin/env python3
"""Two hosts, as network namespaces, with interfaces that lead nowhere: which are used and listened on, and messages.

usage: interfaces_test.py PROGRAM TERRACE       PROGRAM is tests/ucx/loop.cpp
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest

PROGRAM, TERRACE = sys.argv[1:]
del sys.argv[1:]
PORTS = range(21000, 21010)


def ip(*words):
    done = subprocess.run(["ip", *words], text=True, capture_output=True)
    if done.returncode != 0:
        raise unittest.SkipTest(f"ip {' '.join(words)}: {done.stderr.strip()}")


def listeners(pid):
    """Returns (address, port) of each listening socket in the network namespace of a process, as `ss -ltn` shows them;
    nothing if the process has not entered its host's namespace yet."""
    try:
        if os.readlink(f"/proc/{pid}/ns/net") == os.readlink("/proc/self/ns/net"):
            return set()
        lines = pathlib.Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]
    except OSError:
        return set()
    ends = [row[1].split(":") for row in map(str.split, lines) if row[3] == "0A"]
    return {(".".join(str(b) for b in reversed(bytes.fromhex(address))), int(port, 16)) for address, port in ends}


class Interfaces(unittest.TestCase):
    def setUp(self):
        if os.geteuid() != 0 or not shutil.which("ip"):
            self.skipTest("network namespaces take root and ip")
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        self.up = []
        self.hosts = [f"terrace-{os.getpid()}-{i}" for i in range(2)]
        for i, host in enumerate(self.hosts):
            ip("netns", "add", host)
            self.addCleanup(subprocess.run, ["ip", "netns", "del", host])
            ip("-n", host, "link", "set", "lo", "up")

    def wire(self, name, subnet):
        """Adds a cable between the hosts, with the addresses SUBNET.1 and SUBNET.2."""
        a, b = self.hosts
        ip("link", "add", "name", name, "netns", a, "type", "veth", "peer", "name", name, "netns", b)
        for i, host in enumerate(self.hosts):
            self.address(host, name, f"{subnet}.{i + 1}/24")

    def address(self, host, name, address):
        if address:
            ip("-n", host, "addr", "add", address, "dev", name)
        ip("-n", host, "link", "set", name, "up")
        self.up.append((host, name))

    def add(self, kind, name, addresses):
        """Adds an interface that leads nowhere to each host: a container bridge, or a cable with both ends there."""
        for host, address in zip(self.hosts, addresses):
            ends = [f"{name}-p" if kind == "bridge" else name, f"{name}-q"]
            ip("-n", host, "link", "add", ends[0], "type", "veth", "peer", "name", ends[1])
            if kind == "bridge":
                ip("-n", host, "link", "add", name, "type", "bridge")
                ip("-n", host, "link", "set", ends[0], "master", name)
            for end in ends:
                ip("-n", host, "link", "set", end, "up")
            self.address(host, name, address)

    def add_vpn(self, name, addresses):
        """Adds a tunnel to each host, which a process keeps open, as a VPN does."""
        hold = ("import fcntl, struct, sys; fd = open('/dev/net/tun', 'r+b', buffering=0); "
                f"fcntl.ioctl(fd, 0x400454CA, struct.pack('16sH22x', b'{name}', 0x1001)); print('up', flush=True); "
                "sys.stdin.read()")  # TUNSETIFF, IFF_TUN | IFF_NO_PI
        for host, address in zip(self.hosts, addresses):
            holder = subprocess.Popen(["ip", "netns", "exec", host, sys.executable, "-c", hold], text=True,
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            self.addCleanup(holder.communicate)
            self.assertEqual(holder.stdout.readline(), "up\n")
            self.address(host, name, address)

    def await_carriers(self):
        """Waits until the kernel shows all links as running, which takes some time after they are up."""
        until = time.monotonic() + 10
        for host, name in self.up:
            while "LOWER_UP" not in (said := subprocess.run(["ip", "-n", host, "link", "show", name], text=True,
                                                            capture_output=True).stdout) or "state DOWN" in said:
                self.assertLess(time.monotonic(), until, said)
                time.sleep(0.02)

    def enter(self, rank, words):
        return ["ip", "netns", "exec", self.hosts[rank], "unshare", "-u", "sh", "-c",
                f'hostname host{rank}; exec "$@"', "sh", *words]

    def run_ranks(self, *words, **variables):
        """Runs two ranks. Returns by rank: output, exit status, sockets that ever listened, and those during calls."""
        self.await_carriers()
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("UCX_", "TERRACE_"))}
        environment |= {"TERRACE_BOOTSTRAP": f"file:{self.directory}/meeting", "TERRACE_SIZE": "2",
                        "TERRACE_TIMEOUT": "30", **variables}
        ranks = [subprocess.Popen(self.enter(rank, [PROGRAM, *words]), text=True, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, env={**environment, "TERRACE_RANK": str(rank)})
                 for rank in range(2)]
        seen, over = [set(), set()], threading.Event()

        def watch():
            while not over.is_set():
                for rank in range(2):
                    seen[rank] |= listeners(ranks[rank].pid)

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            first = [rank.stdout.readline() for rank in ranks]
            running = [listeners(rank.pid) for rank in ranks]
            out = [line + rank.communicate(timeout=60)[0] for line, rank in zip(first, ranks)]
        finally:
            over.set()
            watcher.join()
            for rank in ranks:
                rank.kill()
                rank.wait()
        return out, [rank.returncode for rank in ranks], seen, running

    def doctor(self):
        return subprocess.run(self.enter(0, [TERRACE, "doctor"]), text=True, capture_output=True).stdout

    def test_those_that_lead_nowhere_are_left_out(self):
        self.wire("eth7", "10.99.0")
        self.add("bridge", "docker0", ["172.17.0.1/16"] * 2)
        self.add("bridge", "virbr0", ["192.168.122.1/24"] * 2)
        self.add("bridge", "cni0", ["10.244.1.1/24", "10.244.2.1/24"])
        self.add("cable", "same0", ["10.5.0.1/24"] * 2)  # equal addresses on all hosts
        self.add("cable", "bare0", [""] * 2)  # without an address
        if os.path.exists("/dev/net/tun"):
            self.add_vpn("vpn0", ["10.8.0.1/24", "10.8.0.2/24"])
        out, status, seen, running = self.run_ranks("400", "2000", TERRACE_PORTS=f"{PORTS[0]}-{PORTS[-1]}")
        self.assertEqual(status, [0, 0], out)
        for rank in range(2):
            self.assertIn("400 right", out[rank])
            self.assertNotIn("warn", out[rank])
            # During calls only UCX listens, on one port; lifelines no longer do. Both use only this interface.
            self.assertEqual(len(running[rank]), 1, running)
            for address, port in seen[rank]:
                self.assertEqual(address, f"10.99.0.{rank + 1}")
                self.assertIn(port, PORTS)
        said = self.doctor()
        self.assertIn("network: eth7 (10.99.0.1) is used", said)
        self.assertIn("docker0 is not: eth7 goes before a bridge that no hardware is below", said)
        self.assertIn("--mca btl_tcp_if_include", said)
        self.assertNotRegex(said, "btl_tcp_if_include .*(docker0|virbr0|cni0)")

    def test_two_networks_are_used_together(self):
        self.wire("eth1", "10.1.0")
        self.wire("eth2", "10.2.0")
        out, status, _, running = self.run_ranks("400", "2000")
        self.assertEqual(status, [0, 0], out)
        self.assertEqual({address for address, _ in running[0]}, {"10.1.0.1", "10.2.0.1"})

    def test_an_error_names_the_interfaces_and_the_variable(self):
        self.wire("eth7", "10.99.0")
        self.add("bridge", "docker0", ["172.17.0.1/16"] * 2)
        out, status, _, _ = self.run_ranks("1", "2000", UCX_NET_DEVICES="docker0", TERRACE_FAILURE_TIMEOUT="1")
        self.assertEqual(status, [1, 1], out)
        way = r"from 172.17.0.1 \(docker0\) to 172.17.0.1 \(docker0\); UCX_NET_DEVICES"
        self.assertRegex(out[0], f"no lifeline to rank 1 on host1 can be made, {way}")
        self.assertRegex(out[0] + out[1], rf"rank \d on host\d cannot be reached \(.*, {way}")

    def test_too_few_ports_are_an_error(self):
        self.wire("eth7", "10.99.0")
        out, status, _, _ = self.run_ranks("1", "2000", TERRACE_PORTS=f"{PORTS[0]}")
        self.assertEqual(status, [1, 1], out)
        self.assertIn("TERRACE_PORTS", out[0])


if __name__ == "__main__":
    unittest.main()
