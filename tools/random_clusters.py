"""Random clusters: the number and the seed alone determine each cluster.

2 to 6 nodes of 1 to 4 ranks, 3 to 12 ranks in all, without racks or in 2 or 3 racks of different sizes, links of 50 to
100 Mbit/s, in every third cluster with unequal links at the top.
"""
import random


def tree_of(draw):
    """Returns the ranks of each node; with several racks, lists of nodes."""
    while True:
        nodes = [draw.randint(1, 4) for _ in range(draw.randint(2, 6))]
        if 3 <= sum(nodes) <= 12:
            break
    racks = draw.choice([1, 1, 2, 2, 3]) if len(nodes) > 2 else 1
    if racks == 1:
        return nodes
    cuts = [0, *sorted(draw.sample(range(1, len(nodes)), min(racks, len(nodes)) - 1)), len(nodes)]
    return [nodes[a:b] for a, b in zip(cuts, cuts[1:])]


def cluster_text(name, seed, number):
    draw = random.Random(f"{seed} {number}")
    tree = tree_of(draw)
    has_racks = isinstance(tree[0], list)
    rates = [draw.randrange(50, 101, 5) for _ in range(2 if has_racks else 1)]
    top = str(rates[-1]) + " Mbit/s"
    if draw.random() < 1 / 3:
        parts = [draw.choice([1, 1, 0.5, 0.75]) for _ in tree]
        top = "[" + ", ".join(f"{rates[-1] * part / max(parts):g} Mbit/s" for part in parts) + "]"
    levels = [("node", "shm", "10 GB/s", "500 ns"),
              *([("rack", "ethernet", f"{rates[0]} Mbit/s", "30 us, overhead: 10 us")] if has_racks else []),
              ("core" if has_racks else "cluster", "ethernet", top, "30 us, overhead: 10 us")]
    lines = ["# Drawn by tools/predictions --random.", "terrace_topology: 1", f"name: {name}", "levels:",
             *(f"  - {{name: {level}, fabric: {fabric}, bandwidth: {rate}, latency: {latency}}}"
               for level, fabric, rate, latency in levels), f"tree: {tree}"]
    return "\n".join(lines) + "\n"
