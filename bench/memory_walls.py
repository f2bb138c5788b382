"""GPT-2 124M on two ranks, fp32, sequence 256: ZeRO 3 beside PyTorch's FSDP2, tensor parallelism beside PyTorch's. See README.md.

    .deps/venv/bin/python bench/memory_walls.py [--minutes 12] [--only NAME...] [--out FOLDER]

Interleaved rounds, medians, rounds left out that something else disturbed: all as in train_vs_torch.py, whose code this uses.
Writes OUT/memory_walls.md and .json (OUT: runs/bench).
"""
import common
import train_vs_torch as step

PRIVATE = "parallel.share_pages=false"
TP = ["parallel.tp=2", "batch.global=2"]  # two sequences a step on both ranks together, as two replicas with one each

# name -> as step.CASES
CASES = {
    "ours ZeRO 1": ("ours", 2, 1, 1, 10, 6, {}, []),
    "ours ZeRO 2": ("ours", 2, 1, 1, 10, 6, {}, ["parallel.zero=2"]),
    "ours ZeRO 3, shared pages": ("ours", 2, 1, 1, 10, 6, {}, ["parallel.zero=3"]),
    "ours ZeRO 3, private shards": ("ours", 2, 1, 1, 10, 6, {}, ["parallel.zero=3", PRIVATE]),
    "FSDP2": ("fsdp2", 2, 1, 1, 5, 4, {}, []),
    "ours tp = 2": ("ours", 2, 1, 2, 10, 6, {}, TP),
    "ours tp = 2, dry": ("ours", 2, 1, 2, 10, 6, {}, [*TP, "comm.dry=true"]),
    "torch tp": ("tp", 2, 1, 2, 5, 4, {}, []),
    "torch tp, split head": ("tp --tp-head", 2, 1, 2, 5, 4, {}, []),
}
# (title, numerator, denominator, key, bar, whether it is a lower bound)
RATIOS = [
    ("ZeRO 3 with shared pages over FSDP2", "ours ZeRO 3, shared pages", "FSDP2", "tokens_per_s", 2.6, True),
    ("ZeRO 3 with shared pages over our ZeRO 1", "ours ZeRO 3, shared pages", "ours ZeRO 1", "tokens_per_s", 0.95, True),
    ("ZeRO 3 with private shards over FSDP2", "ours ZeRO 3, private shards", "FSDP2", "tokens_per_s", 2.2, True),
    ("ZeRO 3 with private shards over our ZeRO 1", "ours ZeRO 3, private shards", "ours ZeRO 1", "tokens_per_s", 0.85, True),
    ("ZeRO 2 over our ZeRO 1", "ours ZeRO 2", "ours ZeRO 1", "tokens_per_s", 0.97, True),
    ("tp = 2 over PyTorch's", "ours tp = 2", "torch tp", "tokens_per_s", 1.6, True),
    ("tp = 2 over PyTorch's with a split head", "ours tp = 2", "torch tp, split head", "tokens_per_s", 1.6, True),
    ("tp = 2 over our data parallel, equal tokens per step", "ours tp = 2", "ours ZeRO 1", "tokens_per_s", 0.85, True),
    ("PSS of ZeRO 3 with shared pages over FSDP2", "ours ZeRO 3, shared pages", "FSDP2", "pss_mib", 0.6, False),
    ("PSS of ZeRO 3 with private shards over FSDP2", "ours ZeRO 3, private shards", "FSDP2", "pss_mib", 0.6, False),
    ("PSS of tp = 2 over PyTorch's", "ours tp = 2", "torch tp", "pss_mib", None, False),
]


def markdown(report):
    rounds = report["rounds"]
    lines = ["# GPT-2 124M over two ranks: memory walls", "", f"{report['machine']}. {len(rounds)} interleaved rounds, medians.", "",
             "| | rounds that count | tokens/s | of the peak | PSS per rank, MiB |", "|---|---|---|---|---|"]
    for name in CASES:
        runs = [r for r in rounds if name in r]
        if not runs:
            continue
        counted = sum(1 for r in runs if r[name]["why_not"] is None)
        lines.append(f"| {name} | {counted} of {len(runs)} | {step.shown(step.median(rounds, name, 'tokens_per_s'), '.1f')} | "
                     f"{step.shown(step.percent_of_peak(rounds, name), '.1%')} | {step.shown(step.median(rounds, name, 'pss_mib'), '.0f')} |")
    lines += ["", "| ratio of medians | measured | bar |", "|---|---|---|"]
    lines += [f"| {title} | {step.shown(value, '.2f')} | {'at least' if lower else 'below'} {step.shown(bar, '.2f')} |"
              for title, value, bar, lower in report["ratios"]]
    lines += ["", f"Cost of communication of tp = 2 by dry transfers: {step.shown(report['tp_cost'], '.1%')} of a step.", ""]
    return "\n".join(lines)


def main():
    a = step.arguments(CASES, minutes=12)
    rounds = step.interleaved(a.cases, a.minutes, a.quick)
    dry = step.ratio(rounds, "ours tp = 2, dry", "ours tp = 2", "step_s")
    report = {"bench": "memory_walls", "machine": common.machine() + f", {common.caches()}", "tp_cost": None if dry is None else 1 - dry,
              "ratios": [(title, step.ratio(rounds, above, below, key), bar, lower) for title, above, below, key, bar, lower in RATIOS],
              "rounds": rounds}
    step.write(a.out, report, markdown(report))


if __name__ == "__main__":
    main()
