"""Claim: inside a host our collectives run at the speed of memory, far ahead of MPI and Gloo.

    .deps/venv/bin/python bench/collectives.py [--quick]

Two ranks, fp32, buffers rewritten before each operation, results verified before anything is timed; rounds of ours and of the
peers alternate (`tutti bench collectives --peers`), figures are medians over the rounds. memcpy: both ranks at once copy what
the other has just rewritten. Prints Markdown tables with the bars beside the figures, and one JSON line. --quick: shows that it
works; its figures mean nothing. 64 MiB is not a size of the peers' programs.
"""
import argparse
import json
import time

import common

KIB, MIB = 1 << 10, 1 << 20
# bytes: (most against memcpy, least against Open MPI, least against Gloo); 64 B stands against a bare barrier instead
ALL_REDUCE = {64: (None, 1, 100), 4 * KIB: (1.5, 2.5, 100), 32 * KIB: (0.8, 4, 40), 256 * KIB: (0.8, 4, 40), 2 * MIB: (0.8, 4, 10),
              16 * MIB: (0.7, 4, 15), 64 * MIB: (0.7, None, None)}
MOST_BARRIERS = 4
MOVING = ("all_gather", "reduce_scatter", "broadcast", "all_to_all")  # from 1 MiB: <= 1.25x moving the same bytes once
MOST_MOVES = 1.25
MOST_GROUP_US = 1.0


def bench(*words):
    text, _ = common.run([common.TUTTI, "bench", "collectives", "--json", *words], 1800)
    return common.last_json(text)["rows"]


def by_bytes(rows, api):
    return {row["bytes"]: row for row in rows if row["api"] == api}


def verdict(good):
    return "yes" if good else "**no**"


def ratio(theirs, ours):
    return theirs["time_us_p50"] / ours["time_us_p50"] if theirs else None


def cell(value, bar, at_least):
    if value is None or bar is None:
        return "-"
    return f"{value:.2f} ({'>=' if at_least else '<='} {bar:g}: {verdict(value >= bar if at_least else value <= bar)})"


def all_reduce(seconds):
    rows = bench("--op", "all_reduce", "--sizes", "64:64M", "-n", 2, "--seconds", seconds, "--peers")
    ours, mpi, gloo = (by_bytes(rows, api) for api in ("comm", "openmpi", "gloo"))
    lines = []
    for size, (most, least_mpi, least_gloo) in ALL_REDUCE.items():
        row = ours[size]
        memory = cell(row["memcpy_ratio"], most, False) if most else \
            f"{row['time_us_p50'] / row['barrier_us']:.2f} barriers (<= {MOST_BARRIERS}: " \
            f"{verdict(row['time_us_p50'] <= MOST_BARRIERS * row['barrier_us'])})"
        lines.append([size, row["algorithm"], row["time_us_p50"], row["memcpy_us"], row["barrier_us"], memory,
                      cell(ratio(mpi.get(size), row), least_mpi, True), cell(ratio(gloo.get(size), row), least_gloo, True)])
    common.table("All-reduce in place, arena memory", ["bytes", "algorithm", "us", "memcpy us", "barrier us", "of memcpy",
                                                       "times Open MPI", "times Gloo"], lines)
    return rows


def moving(seconds):
    rows, lines = [], []
    for op in MOVING:
        for row in bench("--op", op, "--sizes", "1M:64M", "-n", 2, "--seconds", seconds):
            rows.append(row)
            lines.append([op, row["bytes"], row["time_us_p50"], row["memcpy_us"], cell(row["memcpy_ratio"], MOST_MOVES, False)])
    common.table("Moving bytes", ["operation", "bytes", "us", "memcpy us", "of memcpy"], lines)
    return rows


def unregistered(seconds):
    rows = bench("--op", "all_reduce", "--sizes", "64:64M", "-n", 2, "--seconds", seconds, "--peers", "--unregistered")
    ours, mpi = by_bytes(rows, "comm"), by_bytes(rows, "openmpi")
    common.table("All-reduce of memory outside the arena (from 4 KiB on: faster than Open MPI)", ["bytes", "us", "times Open MPI"],
                 [[size, ours[size]["time_us_p50"], cell(ratio(mpi[size], ours[size]), 1 if size >= 4 * KIB else None, True)]
                  for size in sorted(mpi) if size in ours])
    return rows


def through_group(seconds):
    """Both APIs take turns in five rounds; what a call with a label and statistics costs more than the bare engine."""
    sizes, rows, lines = "64:256K", [], []
    for _ in range(5):
        rows.append([by_bytes(bench("--op", "all_reduce", "--sizes", sizes, "-n", 2, "--seconds", seconds, "--api", api, "--statistics"), api)
                     for api in ("comm", "group")])
    for size in sorted(rows[0][0]):
        more = sorted(group[size]["time_us_p50"] - comm[size]["time_us_p50"] for comm, group in rows)
        lines.append([size, rows[0][0][size]["time_us_p50"], cell(more[len(more) // 2], MOST_GROUP_US, False)])
    common.table("Through Group, with statistics: microseconds more", ["bytes", "comm us", "more us"], lines)
    return [list(group.values()) for _, group in rows]


def crowd(seconds):
    rows = [row for ranks in (4, 8) for row in bench("--op", "all_reduce", "--sizes", 64, "-n", ranks, "--seconds", seconds)]
    common.table("More ranks than cores, 64 B (8 ranks: <= 200 us)", ["ranks", "us"], [[row["ranks"], row["time_us_p50"]] for row in rows])
    return rows


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    seconds = 0.05 if parser.parse_args().quick else 0.5
    machine = f"{common.machine()}; {common.caches()}"
    started = time.monotonic()
    result = {part.__name__: part(seconds) for part in (all_reduce, moving, unregistered, through_group, crowd)}
    print(f"\n{machine}; {time.monotonic() - started:.0f} s.")
    print(json.dumps({"bench": "collectives", "machine": machine, **result}))


if __name__ == "__main__":
    main()
