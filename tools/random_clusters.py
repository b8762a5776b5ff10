"""tools/predictions --random: is the plan the fastest, and its time as predicted, on clusters that nobody chose?

Each cluster is drawn by its number and the seed alone: 2 to 6 nodes of 1 to 4 ranks, 3 to 12 ranks in all, alone or in
2 or 3 racks of different sizes, links of 50 to 100 Mbit/s, every third cluster with unequal ones at the top. A cluster that the folder has results of is not measured again.
"""
import json
import random
import shlex
import shutil
import statistics

from running import (BENCH, SETTINGS, TERRACE, VCLUSTER, aligned, machine_of, planned, run, say, simulated, size_text)

BASELINES = ["staged", "flat-ring", "two-level"]
CANDIDATES = 5
LONG = 64 << 10  # bytes from which on more is asked of choices and predictions
FAR = 1.25       # times the best: such a call is measured again, this often
AGAIN = 61
SHARE = 0.95     # of all cases
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


def launch_of(args, cluster, words=()):
    """What starts ranks, with words for mpirun."""
    if not args.launch:
        return [VCLUSTER, "run", *words, "--"]
    return [*shlex.split(args.launch), *words, "-np", str(machine_of(cluster)["ranks"])]


def result(args, name, setting, again=None):
    """The file of a run; of a call that is measured again, by collective and bytes."""
    return args.output / f"{name}.{'-'.join(map(str, again)) + '.' if again else ''}{setting}.json"


def compare_by(args, name, cluster, others, asked, again=None):
    """The plan beside the others, baselines and MPI, and then beside MPI in other settings."""
    beside = ["--beside", ",".join(map(str, others))] if others else []
    for setting, words in SETTINGS.items() if shutil.which("ompi_info") else [("default", [])]:
        algorithms = ["hierarchical", *(BASELINES if setting == "default" else []), "mpi"]
        run(args.output / f"{name}.txt",
            [*launch_of(args, cluster, words), BENCH, "--plan", args.output / f"{name}.plan.yaml", "--algorithms",
             ",".join(algorithms), *(beside if setting == "default" else []), *asked, "-w", "1",
             *(["--placement", "anywhere"] if args.anywhere else []), "--force", "--json",
             result(args, name, setting, again)])


def measure(args, name, cluster):
    """Links, the plan and the candidates from them, and the bench, all on one emulated cluster."""
    out = args.output
    with planned(out, name, cluster, launch_of(args, cluster), not args.launch,
                 ["--anywhere"] if args.anywhere else []) as (plan, log):
        others = []
        if args.candidates:
            (out / name).mkdir(exist_ok=True)
            others = [out / name / f"candidate-{place}.plan.yaml" for place in range(1, CANDIDATES + 1)]
        for place, other in enumerate(others, 1):
            run(log, [TERRACE, "plan", out / f"{name}.links.yaml", "--candidate", str(place), "-o", other])
        compare_by(args, name, cluster, others,
                   ["--collective", ",".join(args.collectives), "-b", args.minbytes, "-e", args.maxbytes, "-f",
                    str(args.factor), "--min-iters", str(args.iterations)])
        for case in cases_of(args, name):
            if case["times_best"] > FAR:
                what, size = case["collective"], str(case["bytes"])
                compare_by(args, name, cluster, others,
                           ["--collective", what, "-b", size, "-e", size, "-n", str(AGAIN)], (what, size))


# ---- what it comes to ----------------------------------------------------------------------------------------------


def predicted(args, name, row):
    """What `terrace simulate` says of a row: none of MPI's own."""
    if row["algorithm"].startswith("mpi"):
        return {}
    own = row["algorithm"].startswith("candidate-")
    plan = args.output / (f"{name}/{row['algorithm']}.plan.yaml" if own else f"{name}.plan.yaml")
    return simulated(plan, row["collective"], row["bytes"],
                     row["algorithm"] if row["algorithm"] in BASELINES else None)


def rows_of(args, name, again=None):
    """Of all settings: MPI's rows have the setting's name, and the plan's are those of the first run."""
    rows = []
    for setting in SETTINGS:
        if (file := result(args, name, setting, again)).exists():
            found = json.loads(file.read_text())["results"]
            rows += found if setting == "default" else [{**row, "algorithm": f"mpi, {setting}"} for row in found
                                                        if row["algorithm"] == "mpi"]
    return rows


def cases_of(args, name, again=None):
    """The calls of one cluster, by collective and size; or the one that was measured again."""
    calls = {}
    for row in rows_of(args, name, again):
        said = predicted(args, name, row)
        calls.setdefault((row["collective"], row["bytes"]), []).append(
            {"algorithm": row["algorithm"], "measured_s": row["time_us"] / 1e6, "ratio": row["ratio"],
             "wrong": row["wrong"] or 0, **{key: said.get(key) for key in (*PROGRAM, "closed_form_s", "simulated_s")}})
    cases = []
    for (what, size), runs in calls.items():
        programs = {}  # of several runs of one program the median counts: they differ by noise alone
        for each in runs:
            key = tuple(each[key] for key in PROGRAM) if each["shape"] else each["algorithm"]
            programs.setdefault(key, []).append(each)
        plan, *_ = own = next(group for group in programs.values() if group[0]["algorithm"] == "hierarchical")
        best = min(programs.values(), key=ratio_of)
        more = [] if again else cases_of(args, name, (what, size))
        cases.append({"cluster": name, "collective": what, "bytes": size,
                      "times_best": ratio_of(own) / ratio_of(best), "best": best[0]["algorithm"],
                      "again": more[0]["times_best"] if more else None,
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
            f"{case['times_best']:.3f}" + (f", {case['again']:.3f}" if case["again"] else ""), case["best"], f"{case['predicted_over_measured']:.2f}",
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
        if not result(args, name, "default").exists() and not args.compare and number in (args.only or range(len(clusters))):
            say(f"\n[{number}] {name}: {cluster.read_text().splitlines()[-1]}")
            measure(args, name, cluster)
    cases = [case for name in clusters for case in cases_of(args, name)]
    told = verdicts(cases)
    header = ["cluster", "collective", "size", "ms", "/ best", "best", "predicted /", "simulated /", "plan",
              "fastest", ""]
    say("\n" + aligned([header, *map(case_row, cases)]) + "\n".join(told))
    found = {"terrace_random_predictions": 1, "cases": cases}
    (args.output / "random.json").write_text(json.dumps(found, indent=1) + "\n")
    return 1 if any(run["wrong"] for case in cases for run in case["runs"]) else 0
