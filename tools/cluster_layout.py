"""The layout of the virtual cluster that tools/vcluster makes from the description of a machine. Creates nothing.

    terrace topo CLUSTER.yaml --json  ->  machine  ->  layout: nodes, interfaces, bridges, links
"""
import itertools
import os
import pathlib
import re

from running import Failure

MAX_BIT_RATE = 5e9  # above this rate, the machine's own TCP stack is the limit, not the shaper
# Links up to this rate reach it even if ranks share few cores. A link that was idle while its sender waited for a core
# catches up at PEAK times its rate, up to this many bytes. A second bucket lets one packet pass at once, and hardly
# more (docs/reference/emulation.md).
FILLED_BIT_RATE, BUCKET, PEAK, PEAK_BUCKET = 100e6, 16 << 10, 1.1, 2 << 10
# No packet is lost, as in networks with flow control: the queue of a shaper has room for the windows of 32 connections.
# Linux' own windows of some MiB would be half a second of such a link.
WINDOW, QUEUE = 128 << 10, 4 << 20  # [bytes]
ETC_NETNS = pathlib.Path("/etc/netns")
ALL_ADDRESSES = "10.64.0.0/10"  # of all interfaces of all nodes


def shaper(device, bits):
    """Returns the queue, as `tc qdisc` accepts it, that gives a device the rate of a link."""
    return (f"dev {device} root handle 1: tbf rate {bits}bit burst {BUCKET} peakrate {round(PEAK * bits)}bit "
            f"mtu {PEAK_BUCKET} limit {QUEUE}")


# ---- the machine ---------------------------------------------------------------------------------------------------


def network_levels(machine):
    return [l for l, level in enumerate(machine["levels"]) if not level["node_level"]]


def bit_rate(level, child=None):
    """Returns the rate of a child's link into the level; without `child`, the fastest [bit/s]."""
    rates = level.get("bandwidths_bytes_per_s")
    return 8 * (rates[child] if rates and child is not None else level["bandwidth_bytes_per_s"])


def cores_text(cores):
    return f"core {cores[0]}" if len(cores) == 1 else f"cores {', '.join(map(str, cores))}"


def rate_text(bits):
    for factor, unit in ((1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s")):
        if bits >= factor:
            return f"{bits / factor:.6g} {unit}"
    return f"{bits:.6g} bit/s"


def fastest_link(machine):
    """Returns the rate of the fastest link between nodes [bit/s]."""
    return max((bit_rate(machine["levels"][l]) for l in network_levels(machine)), default=0)


def check_rates(machine, path, factor):
    levels = [machine["levels"][l] for l in network_levels(machine)]
    worst = max(levels, key=bit_rate, default=None)
    if worst and bit_rate(worst) > MAX_BIT_RATE:
        advice = f"{factor * 1e9 / bit_rate(worst):.1g}"
        raise Failure(f'{path}: links into level "{worst["name"]}" have {rate_text(bit_rate(worst))}'
                      f'{" after scaling" if factor != 1 else ""}, more than the {rate_text(MAX_BIT_RATE)} one machine '
                      f"can stand for; --scale {advice} makes it {rate_text(float(advice) / factor * bit_rate(worst))} "
                      "and scales all other rates alike", 2)
    def least(level):
        rates = level.get("bandwidths_bytes_per_s", [level["bandwidth_bytes_per_s"]])
        return 8 * min(itertools.chain(rates, *level.get("nics", {}).get("rates_bytes_per_s", [])))
    slowest = min(levels, key=least, default=None)
    if slowest and least(slowest) < 1e5:
        raise Failure(f'{path}: links into level "{slowest["name"]}" have {rate_text(least(slowest))}; '
                      "less than 100 kbit/s is no use", 2)


def capped_nodes(machine):
    """Returns the nodes whose own link is slower than their NICs together. Only NICs are emulated, not that link."""
    levels = network_levels(machine)
    rates = machine["levels"][levels[0]].get("nics", {}).get("rates_bytes_per_s", []) if levels else []
    return [node for node, own in enumerate(rates)
            if bit_rate(machine["levels"][levels[0]], node) < 0.999 * 8 * sum(own)]


def scaled(text, factor):
    """Returns a cluster file, as `terrace topo --yaml` writes it, with every bandwidth multiplied by the factor. Rates
    inside nodes are not emulated, but the planner compares them with the links, so they are scaled, too."""
    def times(rate):
        return f"{float(rate[1]) * factor:.9f}".rstrip("0").rstrip(".") + rate[2]
    text = re.sub(r"([\d.]+)( [kMGT]?(?:B|bit)/s)", times, text)
    return re.sub(r'(?m)^name: "?(.*?)"?$', lambda name: f'name: "{name[1]}-x{factor:g}"', text, count=1)


# ---- the layout ----------------------------------------------------------------------------------------------------


def deal_cores(ranks, cores):
    """Returns the cores of each node by its number of ranks: as evenly as possible, with at least one core per node."""
    if len(cores) < len(ranks):
        held = dict.fromkeys(cores, 0)
        dealt = []
        for count in ranks:
            core = min(held, key=held.get)
            held[core] += count
            dealt.append([core])
        return dealt
    shares = [1] * len(ranks)
    for _ in range(len(cores) - len(ranks)):
        shares[max(range(len(ranks)), key=lambda node: ranks[node] / shares[node])] += 1
    rest = iter(cores)
    return [list(itertools.islice(rest, share)) for share in shares]


def nics_of(machine):
    """Returns, by node, its NICs' rates [bit/s] and each rank's NIC; one NIC per node if the description has none."""
    levels = network_levels(machine)
    if not levels:
        return [{"bits": [], "of_rank": [0] * ranks} for ranks in machine["nodes"]]
    level = machine["levels"][levels[0]]
    if not (nics := level.get("nics")):
        return [{"bits": [round(bit_rate(level, i))], "of_rank": [0] * ranks}
                for i, ranks in enumerate(machine["nodes"])]
    return [{"bits": [round(8 * rate) for rate in rates], "of_rank": of_rank}
            for rates, of_rank in zip(nics["rates_bytes_per_s"], nics["of_rank"])]


def address_of(node, nic):
    """Returns the address of a NIC. Each NIC number has its own subnet, so MPI pairs NICs of the same number."""
    return f"10.{77 + nic}.{node // 250}.{node % 250 + 1}"


class Network:
    """Bridges, and the links up to them."""

    def __init__(self, switches):
        self.switches, self.bridges, self.links = switches, [], []

    def bridge(self, name):
        self.bridges.append(name)
        return name

    def link(self, level, below, bridge, bits):
        name, netns, device = below
        self.links.append({"level": level, "name": name, "netns": netns, "device": device, "bridge": bridge,
                           "port": f"p{len(self.links)}", "bits": bits})

    def join(self, level, domain, nics, children):
        """Joins the children of one domain: lists of (lower end, bits) with an entry for each NIC. On rails, NICs of
        the same number share a separate switch. Returns the bridge from which the next level's link starts."""
        top = self.bridge(f"b{domain}")
        on_rails = nics.get("rails", False)
        for rail in range(max(map(len, children))) if on_rails else ():
            every = sum(own[rail][1] for own in children if rail < len(own))  # a spine without a rate limits nothing
            spine = round(8 * nics["spine_bytes_per_s"]) if "spine_bytes_per_s" in nics else every
            switch = self.bridge(f"r{domain}-{rail}")
            self.link(f"{level}, spine", (switch, self.switches, f"s{domain}-{rail}"), top, spine)
        for own in children:
            for nic, (below, bits) in enumerate(own):
                self.link(level, below, f"r{domain}-{nic}" if on_rails else top, bits)
        return top


def layout(machine, source):
    """Returns all names, addresses and links of the virtual cluster. Creates nothing."""
    number = os.getpid()  # first number from here whose names are free
    while [*pathlib.Path("/run/netns").glob(f"trc-{number:x}-*"), *ETC_NETNS.glob(f"trc-{number:x}-*")]:
        number += 1
    identity = f"trc-{number:x}"
    cores, nics = deal_cores(machine["nodes"], sorted(os.sched_getaffinity(0))), nics_of(machine)
    nodes = [{"host": f"n{i}", "netns": f"{identity}-n{i}",
              "addresses": [address_of(i, k) for k in range(max(1, len(nics[i]["bits"])))],
              "nic_of_rank": nics[i]["of_rank"], "ranks": ranks, "cores": cores[i]}
             for i, ranks in enumerate(machine["nodes"])]
    network = Network(f"{identity}-net")
    # Lower ends of the links into the next level, by child: (name, namespace, device) and rate for each NIC.
    below = [[((node["host"], node["netns"], f"eth{k}"), bits) for k, bits in enumerate(own["bits"])]
             for node, own in zip(nodes, nics)]
    levels = network_levels(machine)
    for l in levels:
        level, rest, domains = machine["levels"][l], iter(below), []
        rails = level.get("nics", {}) if l == levels[0] else {}
        for d, count in enumerate(machine["shape"][l]):
            bridge = network.join(level["name"], f"{l}-{d}", rails, list(itertools.islice(rest, count)))
            above = machine["levels"][l + 1] if l != levels[-1] else None
            domains.append([((bridge, network.switches, f"up{l}-{d}"), round(bit_rate(above, d)))] if above else [])
        below = domains
    return {"name": machine["name"], "source": str(source), "ready": False, "nodes": nodes,
            "switches": network.switches, "bridges": network.bridges, "links": network.links,
            "interface": "eth0" if network.links else "lo", "shm": f"/dev/shm/{identity}",
            "made_etc_netns": not ETC_NETNS.exists()}


# ---- ranks and their NICs ------------------------------------------------------------------------------------------


def nic_script(nodes):
    """Returns a shell script that runs its command with Open MPI's TCP on the NIC of its rank."""
    cases = "".join(f"    {node['host']}/{rank}) nic=eth{nic} ;;\n"
                    for node in nodes for rank, nic in enumerate(node["nic_of_rank"]))
    return ("#!/bin/sh\n"
            'case "$(hostname)/$OMPI_COMM_WORLD_LOCAL_RANK" in\n'
            f"{cases}"
            '    *) echo "vcluster: no rank of the cluster: $(hostname)/$OMPI_COMM_WORLD_LOCAL_RANK" >&2; exit 1 ;;\n'
            "esac\n"
            'OMPI_MCA_btl_tcp_if_include=$nic exec "$@"\n')
