"""Prints start-up times: from the start of the process to the end of step 1, less the median step (summary.json's startup_s).

    .deps/venv/bin/python bench/startup.py [--rounds 5] [--only 124M]

First GPT-2 124M on two ranks, whose memory is what takes time, with its table of parts (rank 0's log); then the small model,
where the program itself does. Beside them two yardsticks: the peer's process with one step (its imports included), and Python
importing torch. Values of one round share a minute; medians over the rounds are printed.
"""
import argparse
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

import common

FEW = ["run.eval_every=0", "run.checkpoint_every=0", "data.valid=0"]
TOKENS = common.ROOT / "data/shakespeare-gpt2.tokens"
PART = re.compile(r"^  (\S.*\S) +([0-9.]+) ms$", re.MULTILINE)


def gpt2_124m():
    """One run of three steps on two ranks: (summary, {part of start-up: seconds})."""
    with tempfile.TemporaryDirectory() as folder:
        run_dir = pathlib.Path(folder) / "run"
        common.run([common.TUTTI, "train", "examples/gpt2-124m.toml", "-n", 2, "batch.global=2", "run.steps=3", *FEW,
                    f"data.train={TOKENS}", f"run.dir={run_dir}"], 300)
        summary = json.loads((run_dir / "summary.json").read_text())
        parts = {name: float(ms) / 1e3 for name, ms in PART.findall((run_dir / "log/rank-0.txt").read_text())}
        parts["first step, less the median"] = parts.pop("first step") - summary["step_s"]
        parts["start-up"] = parts.pop("together") - summary["step_s"]
        return summary, parts


def bench_124m(rounds):
    if not TOKENS.exists():
        texts = sorted((common.ROOT / ".deps/shakespeare").glob("*.txt"))
        TOKENS.parent.mkdir(exist_ok=True)
        subprocess.run([common.TUTTI, "data", "prepare", *texts, "--tokenizer", "gpt2", "-o", TOKENS], check=True,
                       stdout=subprocess.DEVNULL)
    found = [gpt2_124m()[1] for _ in range(rounds)]
    rows = [[name, statistics.median(f[name] for f in found), min(f[name] for f in found)] for name in found[0]]
    common.table(f"Start-up of GPT-2 124M on two ranks, seconds, {rounds} rounds", ["", "median", "least"], rows)
    return found


def bench_small(rounds):
    few = [*FEW, "run.steps=10", "batch.micro=2"]
    ways = {f"tutti, {n} rank{'s' * (n > 1)}": lambda n=n: common.tutti_train(few, ranks=n)["startup_s"] for n in (1, 2, 4)}
    ways["PyTorch loop: process with one step and validation"] = lambda: common.run([sys.executable, "bench/shakespeare_torch.py", "--steps", 1], 300)[1]
    ways["python -c 'import torch'"] = lambda: common.run([sys.executable, "-W", "ignore", "-c", "import torch"], 300)[1]
    rows = {name: [] for name in ways}
    for _ in range(rounds):
        for name, measure in ways.items():
            rows[name].append(measure())
    common.table("Start-up of the small model, seconds", ["", "median", "least"],
                 [[name, statistics.median(v), min(v)] for name, v in rows.items()])
    return rows


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=["124M", "small"])
    a = parser.parse_args()
    machine = common.machine()
    result = {"bench": "startup", "machine": machine}
    if a.only != "small":
        result["gpt2_124m"] = bench_124m(a.rounds)
    if a.only != "124M":
        result["small"] = bench_small(a.rounds)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
