"""Predicted memory beside measured memory: runs of two sizes at dp1 and dp2, ZeRO 0 and 1, with and without accumulation.

    python3 bench/memory.py [--json]        (needs build/tutti and build/libexec/tutti-torch)

Measured: the largest PSS (proportional set size, /proc/PID/smaps_rollup) that any rank reaches, sampled from outside while it
trains. Claim: the total is within 5 % of it. Prints one row per run and returns 1 if one is farther off.
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import time

from common import ROOT, TUTTI, table

SIZES = {
    "28M": ["model.layers=6", "model.hidden=384", "model.heads=6", "model.vocab=50257", "model.context=256",
            "data.sequence=256"],
    "124M": ["model.layers=12", "model.hidden=768", "model.heads=12", "model.vocab=50257", "model.context=1024",
             "data.sequence=256"],
}
LAYOUTS = {
    "dp1": (1, ["parallel.zero=0", "batch.micro=4", "batch.global=4"]),
    "dp1, 4 micro-batches": (1, ["parallel.zero=0", "batch.micro=4", "batch.global=16"]),
    "dp2 ZeRO 0": (2, ["parallel.zero=0", "batch.micro=4", "batch.global=8"]),
    "dp2 ZeRO 1": (2, ["parallel.zero=1", "batch.micro=4", "batch.global=8"]),
    "dp2 ZeRO 1, 2 micro-batches": (2, ["parallel.zero=1", "batch.micro=4", "batch.global=16"]),
}
KINDS = ("Pss", "Pss_Anon", "Pss_File", "Pss_Shmem")


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


def measure(config, overrides, ranks, folder):
    """The fullest moment of the fullest rank while five steps run."""
    words = [TUTTI, "train", config, *overrides, f"run.dir={folder}/run", "-n", str(ranks)]
    process = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    peak, deadline = {}, time.monotonic() + 600
    while process.poll() is None:
        if time.monotonic() > deadline:
            process.kill()
            sys.exit(f"{words} takes longer than 10 minutes")
        for pid in ranks_of(process.pid):
            now = rollup(pid)
            if now and now.get("Pss", 0) > peak.get("Pss", 0):
                peak = now
        time.sleep(0.02)  # a reading costs about a millisecond per GiB
    if process.returncode != 0:
        sys.exit(f"exit status {process.returncode}: {words}\n{process.stderr.read()[-2000:]}")
    return peak


def predict(config, overrides, ranks):
    words = [TUTTI, "memory", config, *overrides, "-n", str(ranks), "--json"]
    done = subprocess.run(words, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True, timeout=60)
    return max(json.loads(done.stdout)["ranks"], key=lambda rank: rank["total"])


def main():
    rows, documents = [], []
    with tempfile.TemporaryDirectory() as folder:
        text = pathlib.Path(folder) / "text.txt"
        text.write_text("It was the best of times, it was the worst of times.\n" * 20000)
        tokens = pathlib.Path(folder) / "text.tokens"
        subprocess.run([TUTTI, "data", "prepare", text, "--tokenizer", "gpt2", "-o", tokens], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=120)
        common = [f"data.train={tokens}", "data.valid=0", "run.steps=5", "run.eval_every=0", "run.checkpoint_every=0",
                  "run.trace=[0,0]"]
        for size, model in SIZES.items():
            for layout, (ranks, split) in LAYOUTS.items():
                overrides = [*common, *model, *split]
                with tempfile.TemporaryDirectory() as run:
                    measured = measure("examples/tiny.toml", overrides, ranks, run)
                predicted = predict("examples/tiny.toml", overrides, ranks)
                error = predicted["total"] / measured["Pss"] - 1
                print(f"{size} {layout}: measured {measured['Pss'] / 2**20:.0f} MiB, predicted "
                      f"{predicted['total'] / 2**20:.0f} MiB, {100 * error:+.1f} %", file=sys.stderr, flush=True)
                documents.append({"size": size, "layout": layout, "measured": measured, "predicted": predicted, "error": error})
                rows.append((size, layout, *(round(measured[kind] / 2**20) for kind in KINDS),
                             *(round(predicted[term] / 2**20) for term in ("parameters", "gradients", "optimizer", "activations",
                                                                           "logits", "buffers", "slack", "base", "total")),
                             f"{100 * error:+.1f} %"))
    if "--json" in sys.argv:
        print(json.dumps(documents, indent=1))
    else:
        table("MiB of the fullest rank", ("size", "layout", *KINDS, "P", "G", "O", "A", "L", "B", "S", "base", "predicted",
                                          "error"), rows)
    sys.exit(0 if all(abs(document["error"]) <= 0.05 for document in documents) else 1)


if __name__ == "__main__":
    main()
