#!/usr/bin/env python3
"""terrace doctor: verdicts on this machine, on dumps of a stuck job, on the NICs of ranks.

usage: doctor_test.py TERRACE SOURCE_ROOT
"""
import json
import os
import pathlib
import re
import resource
import socket
import subprocess
import sys
import tarfile
import unittest

from command import TERRACE, Command, NicPlan, built_with_mpi


class Doctor(Command):
    def doctor(self, files=None, path=None):
        def limit():
            if files:
                resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
        environment = {**os.environ, **({"PATH": path} if path else {})}
        return subprocess.run([TERRACE, "doctor"], text=True, capture_output=True, preexec_fn=limit, env=environment)

    def dump(self, rank, waits, last="send"):
        event = {"time_us": 5e6 + rank, "call": 12, "what": last, "ends": False, "stage": 1, "down": False, "step": 3,
                 "lane": 0, "chunk": 7, "peer": 2}
        text = json.dumps({"rank": rank, "host": f"n{rank}", "pid": 100 + rank, "communicator": 0, "time_us": 6e6,
                           "waits_for": waits, "events": [event]})
        (pathlib.Path(self.directory) / f"stuck.{rank}.json").write_text(text)

    def verdict(self, status=0):
        done = subprocess.run([TERRACE, "doctor", "--dumps", self.directory], text=True, capture_output=True)
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stdout + done.stderr

    def test_dumps_say_who_all_wait_for_in_the_end(self):
        self.assertIn("has no dumps", self.verdict(2))
        self.dump(0, ["call 12: stage 1 up, step 4, chunk 7: recv from rank 2"])
        self.dump(2, ["call 12: stage 1 up, step 4, chunk 7: recv from rank 3"])
        self.dump(1, [], "recv")
        text = self.verdict()
        self.assertTrue(text.startswith("2 of 3 ranks wait for rank 3 in the end, which has written no dump"), text)
        self.assertIn("rank 0 on n0, process 100: waits for rank 2\n  call 12: stage 1 up", text)
        self.assertIn("rank 1 on n1, process 101: waits for nobody", text)
        self.dump(3, [])
        self.assertIn("wait for rank 3 in the end (n3, process 103), which waits for nobody; "
                      "last it began send of call 12", self.verdict())
        self.dump(3, ["call 12: stage 1 up, step 4, chunk 7: send to rank 2"])
        self.assertIn("in a circle", self.verdict())
        (pathlib.Path(self.directory) / "bad.9.json").write_text("{")
        self.assertIn("bad.9.json", self.verdict(2))

    def test_every_line_has_a_verdict_and_every_problem_a_fix(self):
        done = self.doctor()
        lines = done.stdout.splitlines()
        for what in ["shared memory", "open files", "network", "listeners", "host name", "MPI", "ranks without MPI",
                     "GPU driver", "variables"]:
            self.assertTrue(any(re.match(f"(ok  |note|FIX ) {what}: .", line) for line in lines), done.stdout)
        for line, after in zip(lines, [*lines[1:], ""]):
            if line.startswith(("note", "FIX")):
                self.assertRegex(after, "^       .")
        self.assertEqual(done.returncode, 1 if "FIX " in done.stdout else 0)

    def test_a_bundle_has_what_a_report_needs_and_no_secret(self):
        self.terrace("plan", "cluster.yaml", "-o", "plan.yaml")
        self.dump(3, [])
        variables = {"TERRACE_PLAN": f"{self.directory}/plan.yaml", "TERRACE_DUMP": f"{self.directory}/stuck",
                     "UCX_TLS": "tcp", "SLURM_JWT": "hidden", "OMPI_MCA_orte_precondition_transports": "hidden",
                     "NCCL_proxy": "http://me:hidden@host", "AWS_SECRET_ACCESS_KEY": "hidden", "HOME": "/hidden"}
        self.terrace("doctor", "--bundle", "report.tar", environment=variables)
        with tarfile.open(self.directory / "report.tar") as archive:
            texts = {name: archive.extractfile(name).read().decode() for name in archive.getnames()}
        self.assertEqual(list(texts), ["README", "doctor.txt", "info.txt", "system.txt", "machine.yaml",
                                       "environment.txt", "plan.yaml", "dumps/3.json", "dumps/verdict.txt"])
        self.assertNotIn("hidden", "".join(texts.values()))
        self.assertIn("UCX_TLS=tcp\n", texts["environment.txt"])
        self.assertIn("SLURM_JWT=(left out)\n", texts["environment.txt"])
        self.assertNotRegex(texts["environment.txt"], "(?m)^(HOME|AWS)")
        self.assertRegex(texts["doctor.txt"], "(?m)^ok   ")
        self.assertTrue(texts["info.txt"].startswith("terrace "))
        self.assertIn("glibc ", texts["system.txt"])
        self.assertEqual(texts["plan.yaml"], (self.directory / "plan.yaml").read_text())
        self.assertIn("rank 3", texts["dumps/verdict.txt"])
        (self.directory / "here.yaml").write_text(texts["machine.yaml"])
        self.terrace("topo", "here.yaml")

    def test_a_bundle_says_what_it_could_not_read_and_replaces_only_bundles(self):
        self.terrace("doctor", "--bundle", "report.tar", "--plan", "cluster.yaml")
        with tarfile.open(self.directory / "report.tar") as archive:
            self.assertIn("cannot be read: cluster.yaml", archive.extractfile("doctor.txt").read().decode())
            self.assertEqual(archive.extractfile("plan.yaml").read().decode(), self.CLUSTER)
        self.terrace("doctor", "--bundle", "report.tar", environment={"TERRACE_PLAN": "none.yaml"})
        with tarfile.open(self.directory / "report.tar") as archive:
            self.assertIn("cannot be read: none.yaml", archive.extractfile("plan.yaml").read().decode())
        self.assertIn("was not written by Terrace", self.terrace("doctor", "--bundle", "cluster.yaml", status=2))

    def test_says_which_interface_is_used_and_which_ports_are_free(self):
        def said(**variables):
            return subprocess.run([TERRACE, "doctor"], text=True, capture_output=True,
                                  env={**os.environ, "UCX_NET_DEVICES": "lo", **variables}).stdout
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            self.assertIn("network: lo (127.0.0.1) is used", said())
            self.assertIn("lo (127.0.0.1); ports that the kernel chooses", said())
            self.assertRegex(said(TERRACE_PORTS=f"{port}"), r"FIX  listeners: .*lo \(127.0.0.1\), 0 of 1 ports free")
            self.assertRegex(said(TERRACE_PORTS=f"{port - 100}-{port}"), r"ok   listeners: .* of 101 ports free")

    def test_says_what_a_plan_needs_of_shared_memory(self):
        cluster, plan = (pathlib.Path(self.directory) / name for name in ("large.yaml", "plan.yaml"))
        cluster.write_text("terrace_topology: 1\nname: large\nlevels:\n"
                           "  - {name: node, size: 64, fabric: shm, bandwidth: 10 GB/s, latency: 1 us}\n")
        self.terrace("plan", cluster.name, "-o", plan.name)
        plan.write_text(re.sub("lanes: [0-9]+, chunk: [^,]+", "lanes: 4, chunk: 64 GiB", plan.read_text()))
        done = subprocess.run([TERRACE, "doctor", "--plan", plan], text=True, capture_output=True)
        self.assertIn("512 GiB for each of 64 ranks are wanted; in a container start it with --shm-size=32768g",
                      done.stdout)

    def test_says_what_sharing_gpus_costs(self):
        def said(**variables):
            return subprocess.run([TERRACE, "doctor"], text=True, capture_output=True,
                                  env={**os.environ, **variables}).stdout
        self.assertIn("ok   shared GPUs: ranks of a node that have the same GPU are refused", said())
        self.assertRegex(said(NCCL_HOSTID="a"),
                         r"note shared GPUs: NCCL_HOSTID=a: .*take turns\n +for tests: results are right")

    def test_names_the_launcher_that_started_it(self):
        alone = {name: value for name, value in os.environ.items() if not re.match("OMPI|PMI|SLURM", name)}
        for variables, said in [({}, "ok   launcher: not started by mpirun or srun"),
                                ({"SLURM_STEP_NUM_TASKS": "8"}, "ok   launcher: srun, 8 tasks"),
                                ({"OMPI_COMM_WORLD_SIZE": "4"}, "launcher: mpirun of Open MPI, 4 ranks"),
                                ({"PMI_SIZE": "4"}, "launcher: mpirun of MPICH, 4 ranks")]:
            done = subprocess.run([TERRACE, "doctor"], text=True, capture_output=True, env={**alone, **variables})
            self.assertIn(said, done.stdout)
        both = [subprocess.run([TERRACE, "doctor"], text=True, capture_output=True, env={**alone, name: "4"}).stdout
                for name in ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE")]
        # Terrace was built with at most one of the two MPIs.
        others = [re.search("FIX  launcher: .*\n +terrace-bench and programs built with", out) for out in both]
        self.assertEqual(sum(map(bool, others)), 1 if built_with_mpi() else 0)

    def test_says_where_the_levels_above_nodes_come_from(self):
        for variables, said in [
                ({}, 'note levels above nodes: plans made at creation assume one, "cluster"'),
                ({"SLURM_TOPOLOGY_ADDR": "top.a.n0"},
                 'ok   levels above nodes: spine, leaf, by the address "top.a.n0"'),
                ({"SLURM_TOPOLOGY_ADDR": "top.a.n0", "TERRACE_TOPOLOGY_ADDR": "r7.n0 rack.node"},
                 'ok   levels above nodes: rack, by the address "r7.n0 rack.node"'),
                ({"TERRACE_TOPOLOGY_ADDR": "a.b rack"}, 'note levels above nodes: the address "a.b rack" has 2 parts'),
                ({"TERRACE_TOPOLOGY_ADDR": "r7.n0", "TERRACE_PLAN": "p.yaml"},
                 "levels above nodes: those of the plan p.yaml")]:
            done = subprocess.run([TERRACE, "doctor"], text=True, capture_output=True, env={**os.environ, **variables})
            self.assertIn(said, done.stdout)

    def test_finds_few_files_and_another_mpi(self):
        self.assertRegex(self.doctor(files=64).stdout, "FIX  open files: 64 at a time\n +every peer.*ulimit -n")
        program = self.directory / "mpirun"
        program.write_text("#!/bin/sh\necho other launcher 1.0\n")
        program.chmod(0o755)
        done = self.doctor(path=f"{self.directory}:/bin")
        if built_with_mpi():
            self.assertRegex(done.stdout, "FIX  MPI: no mpirun in PATH")
            self.assertEqual(done.returncode, 1)
        else:
            self.assertRegex(done.stdout, "ok   MPI: built without MPI")


class Nics(NicPlan):
    """Ranks that run without the NICs of their plan."""

    # Returns the doctor's line about the NICs of a job of these ranks.
    def doctor(self, nics, told=("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE"),
               nic_variable="OMPI_MCA_btl_tcp_if_include"):
        ranks = [subprocess.Popen(["sleep", "60"], env={
            "PATH": os.environ["PATH"], told[0]: str(rank), told[1]: str(rank), told[2]: "14",
            **({nic_variable: nic} if nic else {})}) for rank, nic in nics.items()]
        try:
            done = subprocess.run([TERRACE, "doctor", "--plan", "plan.yaml"], cwd=self.directory, text=True,
                                  capture_output=True)
            return next(line for line in done.stdout.splitlines() if "NICs of ranks" in line)
        finally:
            for rank in ranks:
                rank.kill()
                rank.wait()

    def test_the_doctor_sees_ranks_without_their_nics(self):
        self.assertEqual(self.doctor({}),
                         "note NICs of ranks: no job of 14 ranks by mpirun, srun or torchrun runs here")
        self.assertEqual(self.doctor({0: "eth0", 1: "eth0", 6: "eth1"}), "ok   NICs of ranks: 3, as the plan has it")
        self.assertEqual(self.doctor({0: "eth0", 6: "eth0"}),
                         "FIX  NICs of ranks: ranks 0 and 6 both use eth0; the plan gives them NICs 0 and 1")
        self.assertEqual(self.doctor({0: "eth0", 1: "eth1"}),
                         "FIX  NICs of ranks: ranks 0 and 1 use eth0 and eth1; the plan gives them one NIC, 0")
        for told in (("SLURM_PROCID", "SLURM_LOCALID", "SLURM_STEP_NUM_TASKS"), ("RANK", "LOCAL_RANK", "WORLD_SIZE")):
            self.assertEqual(self.doctor({0: "eth0", 6: "eth0"}, told, "UCX_NET_DEVICES"),
                             "FIX  NICs of ranks: ranks 0 and 6 both use eth0; the plan gives them NICs 0 and 1")
        for every in ("", "eth0,eth1", "10.0.0.0/8"):
            self.assertEqual(self.doctor({0: "eth0", 6: every}),
                             "FIX  NICs of ranks: rank 6 may use every NIC; the plan gives it NIC 1")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
