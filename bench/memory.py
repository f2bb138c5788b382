"""Predicted memory beside measured memory: runs of two sizes at dp1, dp2 and tp2, ZeRO 0, 1 and 3, with and without accumulation.

    python3 bench/memory.py [--size 28M|124M] [--json]        (needs build/tutti and build/libexec/tutti-torch)

Measured: the mean PSS (proportional set size, /proc/PID/smaps_rollup) of a run's ranks at its fullest moment, sampled from
outside while they train. The mean, since a page that two ranks map counts wholly for one as soon as the other has let it go:
the last rank to leave would seem to hold what both shared. Memory does not depend on speed, so a busy machine does not matter, with one exception: pages of LibTorch that another
program maps at the same time count less (File; others: how many such programs there were). Claim: the total is within 5 % of it.
Prints one row per run and returns 1 if one is farther off. The terms one by one: tests/parity/memory_terms_test.cpp.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time

from common import ROOT, TUTTI, machine, table

SIZES = {
    "28M": ("examples/tiny.toml", ["model.layers=6", "model.hidden=384", "model.heads=6", "model.vocab=50257",
                                   "model.context=256"]),
    "124M": ("examples/gpt2-124m.toml", []),
}
LAYOUTS = {
    "dp1": (1, ["parallel.zero=0", "batch.micro=4", "batch.global=4"]),
    "dp1, 2 micro-batches": (1, ["parallel.zero=0", "batch.micro=4", "batch.global=8"]),
    "dp2 ZeRO 0": (2, ["parallel.zero=0", "batch.micro=4", "batch.global=8"]),
    "dp2 ZeRO 1": (2, ["parallel.zero=1", "batch.micro=4", "batch.global=8"]),
    "dp2 ZeRO 1, 2 micro-batches": (2, ["parallel.zero=1", "batch.micro=4", "batch.global=16"]),
    "dp2 ZeRO 1, 4 micro-batches of 1": (2, ["parallel.zero=1", "batch.micro=1", "batch.global=8"]),
    "dp2 ZeRO 3, own pages": (2, ["parallel.zero=3", "parallel.share_pages=false", "batch.micro=4", "batch.global=8"]),
    "dp2 ZeRO 3, own pages, 2 micro-batches": (2, ["parallel.zero=3", "parallel.share_pages=false", "batch.micro=4", "batch.global=16"]),
    "dp2 ZeRO 1, bf16": (2, ["run.precision=bf16", "batch.micro=4", "batch.global=8"]),
    "dp2 ZeRO 3, own pages, bf16": (2, ["run.precision=bf16", "parallel.zero=3", "parallel.share_pages=false", "batch.micro=4",
                                        "batch.global=8"]),
    "tp2": (2, ["parallel.tp=2", "batch.micro=4", "batch.global=4"]),
    "tp2, full recompute": (2, ["parallel.tp=2", "parallel.recompute=full", "batch.micro=4", "batch.global=4"]),
}
KINDS = ("Pss", "Pss_Anon", "Pss_Shmem", "Pss_File")
TERMS = ("parameters", "gradients", "optimizer", "activations", "logits", "buffers", "slack", "base")


def rollup(pid):
    """Bytes of each kind of one process; nothing if it is gone."""
    try:
        lines = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return None
    fields = dict(line.split(":", 1) for line in lines if ":" in line)
    return {kind: int(fields[kind].split()[0]) * 1024 for kind in KINDS if kind in fields}


def ranks_of(parent):
    """Processes below `parent` that are ranks."""
    found, open_ = [], [parent]
    while open_:
        pid = open_.pop()
        try:
            children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        except OSError:
            continue
        for child in children:
            open_.append(child)
            try:
                if "tutti-torch" in pathlib.Path(f"/proc/{child}/cmdline").read_text():
                    found.append(child)
            except OSError:
                pass
    return found


def others(own):
    """Processes besides `own` that map LibTorch now, and so take a share of its pages."""
    found = 0
    for maps in pathlib.Path("/proc").glob("[0-9]*/maps"):
        try:
            found += maps.parent.name not in own and "libtorch_cpu" in maps.read_text()
        except OSError:
            pass  # gone, or another user's
    return found


def measure(config, overrides, ranks, folder):
    """Mean over the ranks at their fullest moment while two steps run; with it, how many other programs mapped LibTorch."""
    words = [TUTTI, "train", config, *overrides, f"run.dir={folder}/run", "-n", str(ranks)]
    process = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    peak, sharers, deadline = {}, 0, time.monotonic() + 600
    while process.poll() is None:
        if time.monotonic() > deadline:
            process.terminate()  # the launcher ends its ranks
            sys.exit(f"{words} takes longer than 10 minutes")
        own = ranks_of(process.pid)
        now = [kinds for kinds in map(rollup, own) if kinds]
        mean = {kind: sum(kinds.get(kind, 0) for kinds in now) / ranks for kind in KINDS}
        if mean["Pss"] > peak.get("Pss", 0):
            peak, sharers = mean, others(own)
        time.sleep(0.2)  # nothing is given back between steps: the end of a step shows what it had at most
    if process.returncode != 0:
        sys.exit(f"exit status {process.returncode}: {words}\n{process.stderr.read()[-2000:]}")
    return {**peak, "others": sharers}


def predict(config, overrides, ranks):
    words = [TUTTI, "memory", config, *overrides, "-n", str(ranks), "--json"]
    done = subprocess.run(words, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True, timeout=60)
    of_ranks = json.loads(done.stdout)["ranks"]
    return {term: sum(rank[term] for rank in of_ranks) / len(of_ranks) for term in ("total", *TERMS)}


def prepare(folder):
    """A token file in GPT-2's tokens, and what all runs have in common."""
    text, tokens = pathlib.Path(folder) / "text.txt", pathlib.Path(folder) / "text.tokens"
    text.write_text("It was the best of times, it was the worst of times.\n" * 20000)
    subprocess.run([TUTTI, "data", "prepare", text, "--tokenizer", "gpt2", "-o", tokens], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=120)
    return [f"data.train={tokens}", "data.valid=0", "data.sequence=256", "run.steps=2", "run.eval_every=0",
            "run.checkpoint_every=0", "run.trace=[0,0]"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", choices=SIZES)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    rows, documents = [], []
    with tempfile.TemporaryDirectory() as folder:
        common = prepare(folder)
        for size in [args.size] if args.size else SIZES:
            config, model = SIZES[size]
            for layout, (ranks, split) in LAYOUTS.items():
                overrides = [*common, *model, *split]
                with tempfile.TemporaryDirectory() as run:
                    measured = measure(config, overrides, ranks, run)
                predicted = predict(config, overrides, ranks)
                error = predicted["total"] / measured["Pss"] - 1
                print(f"{size} {layout}: measured {measured['Pss'] / 2**20:.0f} MiB, predicted "
                      f"{predicted['total'] / 2**20:.0f} MiB, {100 * error:+.1f} %", file=sys.stderr, flush=True)
                documents.append({"size": size, "layout": layout, "measured": measured, "predicted": predicted, "error": error})
                rows.append((size, layout, *(round(measured[kind] / 2**20) for kind in KINDS),
                             measured["others"], round(predicted["total"] / 2**20), f"{100 * error:+.1f} %",
                             *(round(predicted[term] / 2**20) for term in TERMS)))
    if args.json:
        print(json.dumps({"machine": machine(), "rows": documents}, indent=1))
    else:
        print(machine())
        table("MiB of a rank", ("size", "layout", "PSS", "Anon", "Shmem", "File", "others", "predicted", "error", *TERMS), rows)
    sys.exit(0 if all(abs(document["error"]) <= 0.05 for document in documents) else 1)


if __name__ == "__main__":
    main()
