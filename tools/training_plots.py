"""Pictures of tools/gradients beside the bench's own box plots: times over ranks, a timeline."""
import pathlib
import re

from running import say


def pyplot_or_none():
    """matplotlib.pyplot, if it is there; says so if it is not."""
    try:
        import matplotlib
    except ImportError:
        say("no such pictures: python3-matplotlib is not there (apt-get install python3-matplotlib)")
        return None
    matplotlib.use("Agg")
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "terrace", "font.size": 9})
    from matplotlib import pyplot
    return pyplot


def save(pyplot, figure, path):
    """As PATH.svg and PATH.png. The SVG has the same bytes for the same data."""
    figure.tight_layout()
    figure.savefig(f"{path}.svg", metadata={"Date": None})
    figure.savefig(f"{path}.png", dpi=120)
    pyplot.close(figure)
    svg = pathlib.Path(f"{path}.svg")
    svg.write_text("".join(line.rstrip() + "\n" for line in svg.read_text().splitlines()))


def draw_ranks(rows, title, path):
    """Time of an iteration, and gradients reduced per second of communication, over ranks. rows: over_ranks of gradients."""
    pyplot = pyplot_or_none()
    if pyplot is None:
        return
    figure, (time, rate) = pyplot.subplots(1, 2, figsize=(9, 3.4))
    ranks = [row["ranks"] for row in rows]
    for key, label, style in (("overlap_ms", "overlap", "o-"), ("none_ms", "no overlap", "s-"), ("bound_ms", "bound", "k--")):
        time.plot(ranks, [row[key] for row in rows], style, label=label, markersize=4)
    rate.plot(ranks, [row["MB_per_s"] for row in rows], "o-", color="C2", markersize=4, label="gradients")
    rate.plot(ranks, [row["link_MB_per_s"] for row in rows], "^-", color="C3", markersize=4, label="on a node's link")
    time.set(title=title, xlabel="ranks", ylabel="time of an iteration [ms]", ylim=(0, None), xticks=ranks)
    rate.set(title="no overlap: bytes per second of communication", xlabel="ranks", ylabel="MB/s", xticks=ranks,
             yscale="log")
    for axes in (time, rate):
        axes.grid(True, alpha=0.3)
        axes.legend(fontsize=8)
    save(pyplot, figure, path)


def rows_of_trace(events, rank):
    """The rows of a rank's last iteration: {name: [(begin, length [ms], label)]}, from where it begins."""
    names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name" and e["pid"] == rank}
    slices = [(names[e["tid"]], e["ts"] / 1e3, e["dur"] / 1e3, e["name"]) for e in events
              if e["ph"] == "X" and e["pid"] == rank]
    computing = [s for s in slices if s[0] == "iteration" and s[3] == "compute"]
    exposed = [s for s in slices if s[0] == "iteration" and s[3] == "exposed"]
    begin, end = computing[-1][1], exposed[-1][1] + exposed[-1][2]
    rows = {}
    for name, at, length, label in sorted(slices, key=lambda s: s[1]):
        if begin <= at and at + length <= end + 0.1:
            rows.setdefault(name, []).append((at - begin, length, label))
    return rows


def busy(slices):
    """The times in which any of the slices is, one after the other."""
    merged = []
    for at, length, label in sorted(slices):
        if merged and at <= merged[-1][0] + merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], at + length - merged[-1][0])
        else:
            merged.append([at, length, label])
    return merged


def draw_timeline(events, title, path, rank=0):
    """What a trace (TERRACE_TRACE) has of the last iteration of a rank: gradients, buckets, stages and exposed time.

    All lanes and calls of a stage are one row.
    """
    pyplot = pyplot_or_none()
    if pyplot is None:
        return
    rows, stages = {}, {}
    for name, slices in rows_of_trace(events, rank).items():
        if stage := re.search(r"stage \d+ \w+", name):
            stages.setdefault(stage[0], []).extend(slices)
        else:
            rows[name] = slices

    def place(name):
        return {"iteration": 0, "gradients": 1}.get(name, 2), [int(number) for number in re.findall(r"\d+", name)]

    order = sorted(rows, key=place) + sorted(stages)
    rows |= {name: busy(slices) for name, slices in stages.items()}
    figure, axes = pyplot.subplots(figsize=(9, 0.8 + 0.2 * len(order)))
    for i, name in enumerate(order):
        labels = list(dict.fromkeys(label for _, _, label in rows[name]))
        colours = ["C7" if name in stages else f"C{labels.index(label) % 10}" for _, _, label in rows[name]]
        axes.broken_barh([(at, length) for at, length, _ in rows[name]], (i - 0.4, 0.8), facecolors=colours)
        if name == "iteration":
            for at, length, label in rows[name]:
                axes.text(at + length / 2, i, label, ha="center", va="center", fontsize=8, color="white")
    axes.set(title=title, xlabel="milliseconds", xlim=(0, None), ylim=(-0.6, len(order) - 0.4))
    axes.set_yticks(range(len(order)), order)
    axes.invert_yaxis()
    save(pyplot, figure, path)
