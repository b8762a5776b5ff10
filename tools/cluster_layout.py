"""The layout of a virtual cluster: what tools/vcluster makes of a description of a machine. Creates nothing.

    terrace topo CLUSTER.yaml --json  ->  machine  ->  layout: nodes, interfaces, bridges, links
"""
import itertools
import os
import pathlib
import re

from running import Failure

MAX_BIT_RATE = 5e9  # beyond this the machine's own TCP stack is the limit, not the shaper
# Links up to this rate carry what it says though ranks share few cores: what a link lost while its sender waited for a
# core, up to so many bytes, it catches up with at PEAK times its rate. A second bucket lets a packet pass at once, and
# next to nothing else (docs/reference/emulation.md).
FILLED_BIT_RATE, BUCKET, PEAK, PEAK_BUCKET = 100e6, 16 << 10, 1.1, 2 << 10
# No packet is lost, as in networks with flow control: the queue of a shaper holds the windows of 32 connections. Linux'
# own windows of some MiB are half a second of such a link.
WINDOW, QUEUE = 128 << 10, 4 << 20  # [bytes]
ETC_NETNS = pathlib.Path("/etc/netns")
ALL_ADDRESSES = "10.64.0.0/10"  # of all interfaces of all nodes


def shaper(device, bits):
    """The queue of a device that has a link's rate, as `tc qdisc` takes it."""
    return (f"dev {device} root handle 1: tbf rate {bits}bit burst {BUCKET} peakrate {round(PEAK * bits)}bit "
            f"mtu {PEAK_BUCKET} limit {QUEUE}")


# ---- the machine ---------------------------------------------------------------------------------------------------


def network_levels(machine):
    return [l for l, level in enumerate(machine["levels"]) if not level["node_level"]]


def bit_rate(level, child=None):
    """Of a child's link into the level; of the fastest, where they differ and none is named."""
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
    """[bit/s], between nodes."""
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
    """Nodes whose links together carry less than their NICs do. NICs alone are emulated, not what limits a node."""
    levels = network_levels(machine)
    rates = machine["levels"][levels[0]].get("nics", {}).get("rates_bytes_per_s", []) if levels else []
    return [node for node, own in enumerate(rates)
            if bit_rate(machine["levels"][levels[0]], node) < 0.999 * 8 * sum(own)]


def scaled(text, factor):
    """A cluster file as `terrace topo --yaml` writes it, with every bandwidth times the factor. Nothing slows down what
    is inside nodes here, but its proportion to the links is what the planner chooses by."""
    def times(rate):
        return f"{float(rate[1]) * factor:.9f}".rstrip("0").rstrip(".") + rate[2]
    text = re.sub(r"([\d.]+)( [kMGT]?(?:B|bit)/s)", times, text)
    return re.sub(r'(?m)^name: "?(.*?)"?$', lambda name: f'name: "{name[1]}-x{factor:g}"', text, count=1)


# ---- what there will be --------------------------------------------------------------------------------------------


def deal_cores(ranks, cores):
    """The cores of each node, by its ranks: shares as even as can be, a node on one core at least."""
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
    """By node: rates of its NICs [bit/s] and the NIC of each of its ranks. One each where the description has none."""
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
    """One subnet for each NIC number, so that MPI pairs NICs of the same number."""
    return f"10.{77 + nic}.{node // 250}.{node % 250 + 1}"


class Network:
    """Bridges, and the links that go up to them."""

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
        """One domain whose children are lists of (what goes up, bits), one for each NIC. On rails, NICs of the same
        number are on a switch of their own. Returns the bridge that the next level's link starts from."""
        top = self.bridge(f"b{domain}")
        on_rails = nics.get("rails", False)
        for rail in range(max(map(len, children))) if on_rails else ():
            every = sum(own[rail][1] for own in children if rail < len(own))  # a spine without a rate stops nothing
            spine = round(8 * nics["spine_bytes_per_s"]) if "spine_bytes_per_s" in nics else every
            switch = self.bridge(f"r{domain}-{rail}")
            self.link(f"{level}, spine", (switch, self.switches, f"s{domain}-{rail}"), top, spine)
        for own in children:
            for nic, (below, bits) in enumerate(own):
                self.link(level, below, f"r{domain}-{nic}" if on_rails else top, bits)
        return top


def layout(machine, source):
    """All names, addresses and links of the virtual cluster. Creates nothing."""
    number = os.getpid()  # any number whose names nobody has
    while [*pathlib.Path("/run/netns").glob(f"trc-{number:x}-*"), *ETC_NETNS.glob(f"trc-{number:x}-*")]:
        number += 1
    identity = f"trc-{number:x}"
    cores, nics = deal_cores(machine["nodes"], sorted(os.sched_getaffinity(0))), nics_of(machine)
    nodes = [{"host": f"n{i}", "netns": f"{identity}-n{i}",
              "addresses": [address_of(i, k) for k in range(max(1, len(nics[i]["bits"])))],
              "nic_of_rank": nics[i]["of_rank"], "ranks": ranks, "cores": cores[i]}
             for i, ranks in enumerate(machine["nodes"])]
    network = Network(f"{identity}-net")
    # What goes up from each child of the next level: (name, namespace, device), once for each NIC, with its rate.
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
    """A shell script that runs its command with Open MPI's TCP on the NIC of the rank that it is started as."""
    cases = "".join(f"    {node['host']}/{rank}) nic=eth{nic} ;;\n"
                    for node in nodes for rank, nic in enumerate(node["nic_of_rank"]))
    return ("#!/bin/sh\n"
            'case "$(hostname)/$OMPI_COMM_WORLD_LOCAL_RANK" in\n'
            f"{cases}"
            '    *) echo "vcluster: no rank of the cluster: $(hostname)/$OMPI_COMM_WORLD_LOCAL_RANK" >&2; exit 1 ;;\n'
            "esac\n"
            'OMPI_MCA_btl_tcp_if_include=$nic exec "$@"\n')
