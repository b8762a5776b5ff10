"""tools/predictions --random: is the plan the fastest, and its time as predicted, on clusters that nobody chose?

Each cluster is drawn by its number and the seed alone: 2 to 6 nodes of 1 to 4 ranks, 3 to 12 ranks in all, alone or in
2 or 3 racks of different sizes, links of 50 to 100 Mbit/s, every third cluster with unequal ones at the top. A cluster that the folder has results of is not measured again.
"""
import json
import random
import shlex
import statistics
import subprocess

from running import (BENCH, TERRACE, VCLUSTER, Failure, aligned, emulated, machine_of,
                     make_plan, say, show, simulated, size_text)

COLLECTIVES = ["allreduce", "reduce_scatter", "allgather"]
BASELINES = ["flat-ring", "two-level", "mpi"]
SIZES = {"4K": 4 << 10, "16K": 16 << 10, "64K": 64 << 10, "256K": 256 << 10, "1M": 1 << 20, "4M": 4 << 20}
ITERATIONS = {"4K": 61, "16K": 61, "64K": 31, "256K": 15, "1M": 9, "4M": 3}
CANDIDATES = 5
LONG = 64 << 10    # bytes from which on more is asked of choices and predictions
SHARE = 0.95       # of all cases
PROGRAM = ["shape", "lanes", "chunks"]  # by which runs are told apart; of MPI's own: none


# ---- what is asked -------------------------------------------------------------------------------------------------


def near_to(size):
    """The times of the fastest that a choice may take."""
    return 1.05 if size >= LONG else 1.10


def close_to(size):
    """The error that a prediction may have, as a part of the measured time."""
    return 0.15 if size >= LONG else 0.25


def is_close(size, error):
    return abs(error) <= close_to(size)


# ---- clusters ------------------------------------------------------------------------------------------------------


def tree_of(draw):
    """Ranks of each node; nodes in racks where there are several."""
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


# ---- measuring -----------------------------------------------------------------------------------------------------


def run(printed, command):
    with open(printed, "a") as file:
        if show(command, stdout=file, stderr=file).returncode != 0:
            raise Failure(f"that failed; what it printed is in {printed}")


def measure(args, name, cluster):
    """Links, the plan and the candidates from them, and the bench, all on one emulated cluster."""
    out = args.output
    links, plan, log = out / f"{name}.links.yaml", out / f"{name}.plan.yaml", out / f"{name}.txt"
    log.unlink(missing_ok=True)
    if args.launch:
        launch = [*shlex.split(args.launch), "-np", str(machine_of(cluster)["ranks"])]
    else:
        launch = [VCLUSTER, "run", "--"]
    anywhere = {"links": ["--anywhere"], "bench": ["--placement", "anywhere"]} if args.anywhere else {}
    with emulated(cluster, not args.launch):
        run(log, [*launch, BENCH, "--links", "--topology", cluster, "-o", links, *anywhere.get("links", [])])
        make_plan(links, plan)
        others = [out / name / f"candidate-{place}.plan.yaml" for place in range(1, CANDIDATES + 1)]
        (out / name).mkdir(exist_ok=True)
        for place, other in enumerate(others, 1):
            run(log, [TERRACE, "plan", links, "--candidate", str(place), "-o", other])
        for size in args.sizes:
            run(log, [*launch, BENCH, "--plan", plan, "--algorithms", ",".join(["hierarchical", *BASELINES]),
                      "--beside", ",".join(map(str, others)), "--collective", ",".join(COLLECTIVES), "-b", size,
                      "-e", size, "-n", str(ITERATIONS[size]), "-w", "1", *anywhere.get("bench", []),
                      "--force", "--json", out / f"{name}.{size}.json"])


# ---- what it comes to ----------------------------------------------------------------------------------------------


def predicted(args, name, row):
    """What `terrace simulate` says of a row: none of MPI's own."""
    if row["algorithm"] == "mpi":
        return {}
    own = row["algorithm"].startswith("candidate-")
    plan = args.output / (f"{name}/{row['algorithm']}.plan.yaml" if own else f"{name}.plan.yaml")
    return simulated(plan, row["collective"], row["bytes"],
                     row["algorithm"] if row["algorithm"] in BASELINES else None)


def cases_of(args, name, size):
    """The three collectives of one size on one cluster."""
    rows = json.loads((args.output / f"{name}.{size}.json").read_text())["results"]
    cases = []
    for what in COLLECTIVES:
        runs = [{"algorithm": row["algorithm"], "measured_s": row["time_us"] / 1e6, "ratio": row["ratio"],
                 "wrong": row["wrong"] or 0, **{key: said.get(key) for key in (*PROGRAM, "closed_form_s", "simulated_s")}}
                for row in rows if row["collective"] == what for said in [predicted(args, name, row)]]
        if not runs:
            continue  # too few bytes for a block each
        programs = {}  # of several runs of one program the median counts: they differ by noise alone
        for each in runs:
            programs.setdefault(tuple(each[key] for key in PROGRAM), []).append(each)
        plan, *_ = own = next(group for group in programs.values() if group[0]["algorithm"] == "hierarchical")
        best = min(programs.values(), key=ratio_of)
        cases.append({"cluster": name, "collective": what, "bytes": SIZES[size],
                      "times_best": ratio_of(own) / ratio_of(best), "best": best[0]["algorithm"],
                      "predicted_over_measured": plan["closed_form_s"] / plan["measured_s"],
                      "simulated_over_measured": plan["simulated_s"] / plan["measured_s"], "runs": runs})
    return cases


def ratio_of(group):
    return statistics.median(each["ratio"] for each in group)


def is_near(case):
    return case["times_best"] <= near_to(case["bytes"])


def is_predicted(case):
    return is_close(case["bytes"], case["predicted_over_measured"] - 1)


def case_row(case):
    plan, best = (next(each for each in case["runs"] if each["algorithm"] == name)
                  for name in ("hierarchical", case["best"]))
    marks = ("" if is_near(case) else "choice ") + ("" if is_predicted(case) else "predicted")
    return [case["cluster"], case["collective"], size_text(case["bytes"]), f"{plan['measured_s'] * 1e3:.2f}",
            f"{case['times_best']:.3f}", case["best"], f"{case['predicted_over_measured']:.2f}",
            f"{case['simulated_over_measured']:.2f}", plan["shape"], best["shape"] or "-", marks.strip()]


def share_text(what, cases, holds):
    count = sum(map(holds, cases))
    asked = f"{100 * SHARE:.0f} % asked"
    return f"{what}: {count} of {len(cases)}" + (f" ({100 * count / len(cases):.0f} %; {asked})" if cases else "")


def verdicts(cases):
    lines = []
    for sizes, some in ((f"from {size_text(LONG)} on", [c for c in cases if c["bytes"] >= LONG]),
                        ("below", [c for c in cases if c["bytes"] < LONG])):
        size = some[0]["bytes"] if some else LONG
        lines += [share_text(f"plan within {100 * (near_to(size) - 1):.0f} % of the best, {sizes}", some, is_near),
                  share_text(f"predicted within {100 * close_to(size):.0f} % of measured, {sizes}", some, is_predicted)]
    if cases:
        lines.append(f"plan over best: {statistics.median(c['times_best'] for c in cases):.3f} in the middle, "
                     f"{max(c['times_best'] for c in cases):.3f} at most")
    lines.append(f"wrong elements in all results: {sum(run['wrong'] for c in cases for run in c['runs'])}")
    return lines


def clusters_of(args):
    """Files by name: those given, or drawn ones."""
    if args.clusters:
        return {machine_of(cluster)["name"]: cluster for cluster in args.clusters}
    drawn = {}
    for number in range(args.random):
        name = f"random-{args.seed}-{number}"
        drawn[name] = args.output / f"{name}.yaml"
        drawn[name].write_text(cluster_text(name, args.seed, number))
    return drawn


def compare(args):
    """Measures what the folder has no results of, and sums up all it has."""
    args.output.mkdir(parents=True, exist_ok=True)
    clusters = clusters_of(args)
    for number, (name, cluster) in enumerate(clusters.items()):
        lacks = [size for size in args.sizes if not (args.output / f"{name}.{size}.json").exists()]
        if lacks and not args.compare and number in (args.only or range(len(clusters))):
            say(f"\n[{number}] {name}: {cluster.read_text().splitlines()[-1]}")
            measure(args, name, cluster)
    cases = [case for name in clusters for size in SIZES if (args.output / f"{name}.{size}.json").exists()
             for case in cases_of(args, name, size)]
    told = verdicts(cases)
    header = ["cluster", "collective", "size", "ms", "/ best", "best", "predicted /", "simulated /", "plan",
              "fastest", ""]
    say("\n" + aligned([header, *map(case_row, cases)]) + "\n".join(told))
    found = {"terrace_random_predictions": 1, "cases": cases}
    (args.output / "random.json").write_text(json.dumps(found, indent=1) + "\n")
    return 1 if any(run["wrong"] for case in cases for run in case["runs"]) else 0
