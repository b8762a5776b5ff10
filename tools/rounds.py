"""Runs of terrace-bench that differ in how MPI is started, taking turns.

Algorithms alternate within one run, unless they need different starts: a plan's ranks each send through one NIC, but
MPI's own collectives may use all NICs. So each run does a part of its iterations, then the next run, in rounds.
"""
import statistics


def parts(iterations, rounds):
    """Returns the number of iterations of each round."""
    rounds = max(1, min(iterations, rounds))
    return [iterations // rounds + (number < iterations % rounds) for number in range(rounds)]


def percentile(times, part):
    """Returns a percentile, interpolated between the nearest times as in terrace-bench. Needs two times or more."""
    return statistics.quantiles(times, n=100, method="inclusive")[part - 1]


def merged_row(rows, references):
    """Returns one row from the rows of all rounds. `references` are the rows to which they have a ratio, or none."""
    times = [time for row in rows for time in row["times_us"]]
    median, made = statistics.median(times), dict(rows[0])
    for key in ("percent_of_limit", "percent_of_goodput", "percent_of_bus"):
        if made[key] is not None:
            made[key] *= rows[0]["time_us"] / median
    for key in ("algbw", "busbw"):
        made[key] *= rows[0]["time_us"] / median
    made.update(iterations=len(times), times_us=times, time_us=median, time_us_min=min(times), time_us_max=max(times))
    for part in (25, 75, 95, 99):
        made[f"time_us_p{part}"] = percentile(times, part)
    if references:
        others = [time for row in references for time in row["times_us"]]
        ratios = [time / other for time, other in zip(times, others)]
        made.update(ratio=statistics.median(ratios), ratio_p25=percentile(ratios, 25), ratio_p75=percentile(ratios, 75))
    made["wrong"] = sum(row["wrong"] or 0 for row in rows)
    lost = [row["percent_steal_time"] for row in rows if row["percent_steal_time"] is not None]
    made["percent_steal_time"] = max(lost, default=None)
    return made


def merged(found):
    """Returns the results of one run with all iterations, from terrace-bench's JSON of each round."""
    if len(found) == 1:
        return found[0]

    def rows_like(row):
        key = (row["collective"], row["bytes"], row["algorithm"])
        return [other for one in found for other in one["results"]
                if (other["collective"], other["bytes"], other["algorithm"]) == key]

    results = [merged_row(rows_like(row), rows_like({**row, "algorithm": found[0]["reference"]}))
               for row in found[0]["results"]]
    return {**found[0], "results": results}


def against(found, plans):
    """Returns a run without the plan, with ratios of its rows to the plan's median in another run."""
    own = {(row["collective"], row["bytes"]): row["time_us"] for row in plans["results"]
           if row["algorithm"] == plans["reference"]}
    results = []
    for row in found["results"]:
        base = own[row["collective"], row["bytes"]]
        results.append({**row, "ratio": row["time_us"] / base, "ratio_p25": row["time_us_p25"] / base,
                        "ratio_p75": row["time_us_p75"] / base})
    return {**found, "reference": plans["reference"], "results": results}
