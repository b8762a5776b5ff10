#!/usr/bin/env python3
"""terrace export: rankfiles, host files, SimGrid platforms, JSON, scripts for NICs.

usage: export_test.py TERRACE SOURCE_ROOT
"""
import json
import os
import re
import subprocess
import sys
import unittest
import xml.etree.ElementTree

from command import CLUSTER, UNEVEN, Command, NicPlan
from scratch import cluster


class Export(Command):
    NAMED = UNEVEN.replace("name: rack,", 'name: rack, hosts: "tux[1-5]",')
    TORUS = ("terrace_topology: 1\nname: t\ntorus: [4, 2]\n"
             "links: [{fabric: infiniband, bandwidth: 8 GB/s, latency: 1 us}, "
             "{fabric: infiniband, bandwidth: 2 GB/s, latency: 3 us}]\n"
             "levels: [{name: node, size: 2, fabric: shm, latency: 0.5 us}]\n")

    def export(self, cluster, form):
        self.write("c.yaml", cluster)
        self.terrace("plan", "c.yaml", "-o", "p.yaml")
        return self.terrace("export", "p.yaml", "--to", form)

    def test_ranks_are_node_by_node(self):
        self.assertEqual(self.export(self.NAMED, "rankfile").splitlines()[0],
                         "# made by terrace export --to rankfile: 13 ranks on 5 hosts")
        lines = self.lines_of(self.NAMED, "rankfile")
        self.assertEqual(len(lines), 13)
        self.assertEqual([lines[0], lines[4], lines[12]], ["rank 0=tux1 slot=0", "rank 4=tux2 slot=0",
                                                           "rank 12=tux5 slot=0"])
        unnamed = self.export(UNEVEN, "rankfile")
        self.assertIn("rank 4=+n1 slot=0", unnamed)
        self.assertIn("# of 5 nodes, from the scheduler or by --hostfile", unnamed)

    def test_hosts_have_as_many_slots_as_ranks(self):
        self.assertEqual(self.lines_of(self.NAMED, "hostfile"),
                         ["tux1 slots=4", "tux2 slots=2", "tux3 slots=3", "tux4 slots=3", "tux5 slots=1"])
        self.assertEqual(self.lines_of(self.NAMED, "machinefile"), ["tux1:4", "tux2:2", "tux3:3", "tux4:3", "tux5:1"])
        self.assertEqual(self.lines_of(self.NAMED, "slurm"),
                         4 * ["tux1"] + 2 * ["tux2"] + 3 * ["tux3"] + 3 * ["tux4"] + ["tux5"])
        lines = self.lines_of(self.NAMED, "torchrun")
        self.assertEqual(len(lines), 5)
        self.assertEqual(lines[1],
                         "tux2: torchrun --nnodes=5 --node-rank=1 --nproc-per-node=2 --master-addr=tux1 PROGRAM")
        for form in ["hostfile", "machinefile", "slurm", "torchrun"]:
            self.assertIn("hosts:", self.terrace("export", self.plan_without_names(), "--to", form, status=2))

    # Two racks of two nodes of one rank, with uplinks as fast as a node's link. There are six rings of four nodes that
    # start at the first; two of them cross each uplink twice.
    def test_says_what_the_order_is_worth(self):
        racks = """terrace_topology: 1
name: racks
levels:
  - {name: node, size: 2, fabric: shm, bandwidth: 10 GB/s, latency: 1 us}
  - {name: rack, size: 2, fabric: ethernet, bandwidth: 1 GB/s, latency: 5 us}
  - {name: top, size: 2, fabric: ethernet, bandwidth: 1 GB/s, latency: 5 us}
"""
        found = re.search(r"takes ([\d.]+) times.*in turns ([\d.]+) times", self.export(racks, "rankfile"), re.DOTALL)
        self.assertAlmostEqual(float(found[1]), 1 + 1 / 3, delta=0.15)
        self.assertEqual(found[2], "2.00")
        one = racks.replace("size: 2, fabric: ethernet", "size: 1, fabric: ethernet")
        self.assertIn("takes 1.00 times", self.export(one, "rankfile"))

    def test_one_rank_has_no_ring(self):
        one = "terrace_topology: 1\nname: one\nlevels: [{name: node, size: 1, fabric: shm, hosts: tux}]\n"
        for form in ("rankfile", "hostfile", "machinefile", "slurm", "torchrun"):
            self.assertIn("# no prediction for rings: there is one rank\n", self.export(one, form))
        self.assertIn("# of 1 node, from", self.export(one.replace(", hosts: tux", ""), "rankfile"))

    def lines_of(self, cluster, form):
        return [line for line in self.export(cluster, form).splitlines() if not line.startswith("#")]

    def plan_without_names(self):
        self.terrace("plan", "cluster.yaml")
        return "cluster.plan.yaml"

    # A ring sends the vector nearly twice over a link between two nodes, recursive halving only once if near partners
    # come first. On five nodes the ring has the lowest load of any link.
    def test_rules_follow_the_machine(self):
        self.assertEqual(self.last_rule(cluster("two", 4, 2), "allreduce"), "Open MPI's own choice")  # Rabenseifner's
        self.assertEqual(self.last_rule(cluster("five", 3, 5), "allreduce"), "ring")
        self.assertTrue(self.last_rule(cluster("three", 4, 3), "broadcast").startswith("pipeline"))
        self.assertIn("export I_MPI_ADJUST_ALLREDUCE='1:0-", self.export(cluster("three", 4, 3), "intel-mpi"))
        torus = cluster("torus", 2, 4).replace("fabric: ethernet", "fabric: ethernet, links: ring")
        self.write("c.yaml", torus)
        self.terrace("plan", "c.yaml", "-o", "t.yaml")
        self.assertIn("a torus has several ways", self.terrace("export", "t.yaml", "--to", "openmpi-rules", status=2))

    # If start-ups counted once, the rule for the ring, which has 11 steps, would begin at half of this size.
    def test_rules_count_start_ups_twice(self):
        racks = ("terrace_topology: 1\nname: racks\nlevels:\n"
                 "  - {name: node, fabric: shm, bandwidth: 10 GB/s, latency: 500 ns}\n"
                 "  - {name: rack, fabric: ethernet, bandwidth: 60 Mbit/s, latency: 30 us, overhead: 10 us}\n"
                 "  - {name: core, fabric: ethernet, bandwidth: 70 Mbit/s, latency: 30 us, overhead: 10 us}\n"
                 "tree: [[3, 1], [2], [3, 2, 1]]\n")
        self.assertIn("\n16384 4 0 0 # ring\n", self.export(racks, "openmpi-rules"))

    def test_rules_are_read_as_open_mpi_reads_them(self):
        for form in ("openmpi-rules",):
            self.write("r.txt", self.export(cluster("three", 4, 3), form))
            self.assertRegex(self.terrace("verify", "r.txt"), "r.txt: [0-9]+ rules for Open MPI's component")
            self.write("r.txt", self.read("r.txt").replace("3 # sizes", "4 # sizes", 1))
            self.assertRegex(self.terrace("verify", "r.txt", status=2), r"r\.txt:[0-9]+:1: ranks 2 behind 13: ")

    def test_verify_knows_a_file_by_its_beginning(self):
        for form in ("rankfile hostfile machinefile slurm torchrun openmpi-rules openmpi-han mpich intel-mpi nics "
                     "simgrid").split():
            self.write("out", self.export(NicPlan.CLUSTER if form == "nics" else self.NAMED, form))
            says = self.terrace("verify", "out", "--plan", "p.yaml")
            self.assertRegex(says, "^out: .*, as p.yaml has it\nnot in " + form + ": ")
            if "order of ranks" in says:
                self.assertIn("out: 13 ranks on 5 hosts", says)
            self.assertEqual(self.terrace("verify", "out"), says.replace(", as p.yaml has it", ""))
        plan = self.read("p.yaml") + '# export --to openmpi-rules, {"collective= "threadblocks"\n'
        self.write("p.yaml", plan)
        self.assertIn("proved all rules", self.terrace("verify", "p.yaml"))
        rules = self.export(self.NAMED, "openmpi-rules")
        self.write("r.txt", "# by hand\n\n" + re.sub("#.*", "", rules))
        self.assertIn("rules for Open MPI's component", self.terrace("verify", "r.txt"))

    def test_verify_proves_the_rules_in_json(self):
        for cluster in UNEVEN, NicPlan.CLUSTER, self.TORUS:
            self.write("out", self.export(cluster, "json"))
            proved = [self.terrace("verify", file) for file in ("out", "p.yaml")]
            self.assertIn("proved all rules (", proved[0])
            self.assertEqual(proved[0], proved[1].replace("p.yaml", "out"))
            self.assertIn("as p.yaml has it", self.terrace("verify", "out", "--plan", "p.yaml"))
        self.write("out", self.read("out").replace('"ranks": 16', '"ranks": 15'))
        self.assertIn("out: /ranks is not as its plan has it", self.terrace("verify", "out", status=2))

    def test_verify_says_where_a_file_is_wrong(self):
        self.write("hosts", self.export(self.NAMED, "hostfile"))
        self.write("hosts", self.read("hosts").replace("tux3 ", "tux6 "))
        self.terrace("verify", "hosts")
        self.assertIn('hosts: has "tux6 3", where the plan has "tux3 3"',
                      self.terrace("verify", "hosts", "--plan", "p.yaml", status=1))
        self.write("hosts", self.read("hosts").replace("tux5 slots=1\n", ""))
        self.assertRegex(self.terrace("verify", "hosts", status=2), r"hosts:7:0: 12 ranks on 4 hosts up to here, but")
        self.assertIn("p.yaml is no file of terrace export",
                      self.terrace("verify", "p.yaml", "--plan", "p.yaml", status=2))

    # The link between two nodes carries the same bytes in both compositions. Composition alpha goes node by node: it
    # has fewer messages, but moves a whole vector inside each node.
    def test_mpich_goes_node_by_node_where_that_is_faster(self):
        rules = json.loads(self.export(cluster("two", 4, 2), "mpich"))
        self.assertEqual(list(rules), ["collective=allreduce", "collective=bcast", "collective=reduce"])
        forms = rules["collective=allreduce"]["comm_type=intra"]["comm_hierarchy=parent"]["is_commutative=yes"]
        self.assertEqual(list(forms), ["comm_size<=7", "comm_size<=8", "comm_size=any"])
        sizes = forms["comm_size<=8"]
        self.assertEqual([key.rstrip("0123456789") for key in sizes], ["avg_msg_size<=", "avg_msg_size=any"])
        self.assertEqual([list(form) for form in sizes.values()],
                         [["composition=MPIDI_Allreduce_intra_composition_alpha"],
                          ["composition=MPIDI_Allreduce_intra_composition_beta"]])

    def last_rule(self, text, collective):
        rules = self.export(text, "openmpi-rules")
        part = rules[rules.index(f"# {collective}\n"):]
        end = part.index("\n0 0 0 0\n", part.index("# message sizes"))
        return re.findall(r"^\d+ \d+ 0 \d+ # (.*)$", part[:end], re.MULTILINE)[-1]

    # The path between two ranks has the latency of the level where they meet, and the bandwidth of its slowest link.
    def test_simgrid_has_a_way_between_any_two_ranks(self):
        platform = xml.etree.ElementTree.fromstring(self.export(UNEVEN, "simgrid"))
        links = {l.get("id"): (float(l.get("bandwidth")[:-3]), float(l.get("latency")[:-1]))
                 for l in platform.iter("link")}
        zones = {z.get("id") for z in platform.iter("zone")}
        ways = {}
        for route in platform.iter("zoneRoute"):
            self.assertLessEqual({route.get("src"), route.get("dst")}, zones)
            ways.setdefault(route.get("gw_src"), {})[route.get("gw_dst")] = links[route[0].get("id")]
        def way(here, there, seen):
            if here == there:
                return []
            for beyond in ways.get(here, {}):
                if beyond not in seen:
                    rest = way(beyond, there, seen | {beyond})
                    if rest is not None:
                        return [ways[here][beyond], *rest]
        for there, latency, bandwidth in [(1, 0.5e-6, 10e9), (4, 30e-6, 125e6), (12, 40e-6, 62.5e6)]:
            passed = way("rank0", f"rank{there}", {"rank0"})
            self.assertAlmostEqual(sum(p[1] for p in passed), latency, 12)
            self.assertEqual(min(p[0] for p in passed), bandwidth)

    def test_simgrid_links_the_nodes_of_a_torus(self):
        platform = xml.etree.ElementTree.fromstring(self.export(self.TORUS, "simgrid"))
        links = {l.get("id"): (l.get("bandwidth"), l.get("latency")) for l in platform.iter("link")}
        ways = {(r.get("gw_src"), r.get("gw_dst")): links[r[0].get("id")] for r in platform.iter("zoneRoute")
                if r.get("gw_src").startswith("router0") and r.get("gw_dst").startswith("router0")}
        near = {(a, b) for a in range(8) for b in range(8)
                if a // 4 == b // 4 and (a - b) % 4 in (1, 3) or a % 4 == b % 4 and a != b}
        self.assertEqual({(int(a[8:]), int(b[8:])) for a, b in ways if "hub" not in a + b}, near)
        self.assertEqual(ways["router0_3", "router0_0"], ("8e+09Bps", "5e-07s"))
        self.assertEqual(ways["router0_2", "router0_6"], ("2e+09Bps", "2.5e-06s"))
        self.assertEqual(len({h.get("id") for h in platform.iter("host")}), 16)

    def test_json_has_all_rules(self):
        plan = json.loads(self.export(UNEVEN, "json"))
        self.assertEqual((plan["ranks"], plan["nodes"]), (13, [4, 2, 3, 3, 1]))
        self.assertEqual(len(plan["rules"]), 8)
        for rules in plan["rules"].values():
            self.assertIsNone(rules[-1]["up_to_bytes"])
            for rule in rules:
                self.assertGreaterEqual(rule["predicted_s"], 0.99 * rule["limit_s"])
                self.assertTrue(rule["stages"])
                for stage in rule["stages"]:
                    self.assertEqual(stage["provider"], "messages" if "algorithm" in stage else "shared_memory")

    def test_a_call_is_proved_as_it_is_written(self):
        self.write("c.yaml", UNEVEN)
        self.terrace("plan", "c.yaml", "-o", "p.yaml")
        self.terrace("export", "p.yaml", "--to", "chakra", "--bytes", "1M", "-o", "traces")
        self.assertEqual(len(list(self.directory.glob("traces.*.et"))), 13)
        proved = self.terrace("verify", "traces")
        self.assertRegex(proved, "proved allreduce of 262144 float32 elements on 13 ranks: [0-9]+ messages")
        self.assertIn("not in chakra: wire types", proved)
        call = ["--bytes", "1M", "--collective", "scatter"]  # no message has several segments
        messages = json.loads(self.terrace("simulate", "p.yaml", *call, "--json"))["messages"]
        self.terrace("export", "p.yaml", "--to", "chakra", *call, "-o", "traces")
        self.assertIn(f": {messages} messages", self.terrace("verify", "traces"))

    def test_a_smaller_set_takes_the_place_of_a_larger_one(self):
        for text in UNEVEN, cluster("two", 1, 2):
            self.write("c.yaml", text)
            self.terrace("plan", "c.yaml", "-o", "p.yaml")
            self.terrace("export", "p.yaml", "--to", "chakra", "--bytes", "1M", "-o", "traces")
        self.assertEqual(len(list(self.directory.glob("traces.*.et"))), 2)
        self.assertIn(" on 2 ranks", self.terrace("verify", "traces"))
        self.write("traces.2.et", "of someone else")
        export = ["export", "p.yaml", "--to", "chakra", "--bytes", "1M", "-o", "traces"]
        self.assertIn("traces.2.et: this file exists", self.terrace(*export, status=2))
        self.terrace(*export, "--force")
        self.assertFalse((self.directory / "traces.2.et").exists())

    def test_a_call_that_others_changed_is_refused(self):
        self.terrace("plan", "cluster.yaml", "-o", "p.yaml")
        self.terrace("export", "p.yaml", "--to", "chakra", "--bytes", "1M", "-o", "traces")
        first = self.directory / "traces.0.et"
        whole = first.read_bytes()
        # As many elements at another offset: well-formed, but wrong.
        wrong = re.sub(rb"(\[\d+, 0, )[2-9](\d{4,}, \d+, 4, )", rb"\g<1>1\2", whole, count=1)
        self.assertNotEqual(wrong, whole)
        self.assertEqual(len(wrong), len(whole))
        first.write_bytes(wrong)
        self.assertRegex(self.terrace("verify", "traces", status=1), "traces: rank [0-9]")
        first.write_bytes(whole[:-1])
        self.assertRegex(self.terrace("verify", "traces", status=2),
                         r"traces\.0\.et: at byte \d+: \d+ bytes are announced")
        first.write_bytes(whole)
        (self.directory / "traces.7.et").unlink()
        self.assertIn("is rank 0 of 8, but stands as rank 0 of 7", self.terrace("verify", "traces", status=2))
        self.assertIn("--count and --whole are for plans", self.terrace("verify", "traces", "--count", "3", status=2))

    def test_a_plan_of_mscclpp_is_proved_as_it_stands(self):
        self.write("c.yaml", UNEVEN)
        self.terrace("plan", "c.yaml", "-o", "p.yaml")
        export = ["export", "p.yaml", "--to", "mscclpp", "--collective", "allgather", "-o", "m.json", "--bytes"]
        sizes = "a multiple of 208 bytes"
        self.assertIn(f"{sizes} (13 chunks), so not for 1048576\n", self.terrace(*export, "1M"))
        self.assertIn(f"{sizes} (13 chunks)\n", self.terrace(*export, str(208 * 5000)))
        proved = self.terrace("verify", "m.json")
        self.assertRegex(proved, "proved allgather of 13 chunks on 13 ranks: [0-9]+ messages")
        self.assertIn(f"mscclpp runs it for messages of {sizes}\n", proved)
        plan = json.loads(self.read("m.json"))
        del plan["gpus"][2]["threadblocks"][0]["ops"][0]
        self.write("m.json", json.dumps(plan))
        self.assertRegex(self.terrace("verify", "m.json", status=2), r"m\.json:1:\d+: ")
        self.assertIn("holds no broadcast",
                      self.terrace("export", "p.yaml", "--to", "mscclpp", "--collective", "broadcast", status=2))

    def test_a_file_for_each_rank_has_a_name(self):
        self.assertIn("-o OUT", self.terrace("export", self.plan_without_names(), "--to", "chakra", status=2))

    def test_takes_one_form(self):
        self.assertIn("--to", self.terrace("export", self.plan_without_names(), status=2))
        self.assertIn("the formats are json, rankfile",
                      self.terrace("export", self.plan_without_names(), "--to", "xml", status=2))


class Nics(NicPlan):
    """Tests of the script that gives each rank its NIC."""
    UNLIKE = NicPlan.CLUSTER.replace("{count: 2,", "{count: [2, 1],").replace("size: 7", "size: 2")

    def script(self, plan, *options):
        self.terrace("export", plan, "--to", "nics", *options, "-o", "nics.sh")
        self.assertTrue(os.access(self.directory / "nics.sh", os.X_OK))

    def nic_of(self, variable, rank, name="OMPI_MCA_btl_tcp_if_include", **others):
        done = subprocess.run(["./nics.sh", "sh", "-c", f'echo "$0 ${name}"', "two words"], text=True,
                              capture_output=True, cwd=self.directory,
                              env={"PATH": os.environ["PATH"], variable: str(rank)} | others)
        return done.stdout.strip() if done.returncode == 0 else done.stderr.strip()

    def test_a_script_goes_by_the_rank_on_its_node(self):
        self.script("plan.yaml")
        self.assertEqual([self.nic_of("OMPI_COMM_WORLD_LOCAL_RANK", rank) for rank in (0, 3, 4, 6)],
                         ["two words eth0", "two words eth0", "two words eth1", "two words eth1"])
        self.assertEqual(self.nic_of("SLURM_LOCALID", 5), "two words eth1")
        self.assertEqual(self.nic_of("LOCAL_RANK", 4), "two words eth1")
        self.assertEqual(self.nic_of("LOCAL_RANK", 4, SLURM_LOCALID="0"), "two words eth1", "srun starts torchrun")
        self.assertRegex(self.nic_of("OMPI_COMM_WORLD_LOCAL_RANK", 7), "rank '7' is none of the plan's")
        self.assertRegex(self.nic_of("NOTHING", 0), "rank '' is none")
        self.script("plan.yaml", "--interfaces", "mlx5_0:1,mlx5_3:1")
        self.assertEqual(self.nic_of("OMPI_COMM_WORLD_LOCAL_RANK", 4, "UCX_NET_DEVICES"), "two words mlx5_3:1")
        self.assertEqual(self.nic_of("OMPI_COMM_WORLD_LOCAL_RANK", 4), "two words")

    def test_unlike_nodes_go_by_the_rank_in_the_job(self):
        self.write("unlike.yaml", self.UNLIKE)
        self.terrace("plan", "unlike.yaml", "-o", "unlike.plan.yaml")
        self.script("unlike.plan.yaml", "--interfaces", "a,b")
        self.assertEqual([self.nic_of("OMPI_COMM_WORLD_RANK", rank) for rank in range(4)],
                         [f"two words {nic}" for nic in "abaa"])

    def test_refuses(self):
        self.assertIn("names 1, but a node has 2 NICs",
                      self.terrace("export", "plan.yaml", "--to", "nics", "--interfaces", "a", status=2))
        self.assertIn("is no name of an interface",
                      self.terrace("export", "plan.yaml", "--to", "nics", "--interfaces", "a,b;reboot", status=2))
        self.assertIn("for --to nics",
                      self.terrace("export", "plan.yaml", "--to", "json", "--interfaces", "a,b", status=2))
        self.write("one.yaml", CLUSTER)
        self.terrace("plan", "one.yaml", "-o", "one.plan.yaml")
        self.assertIn("the plan has no NICs", self.terrace("export", "one.plan.yaml", "--to", "nics", status=2))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
