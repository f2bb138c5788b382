"""Prints start-up times: from the start of the process to the end of step 1, less the median step (summary.json's startup_s).

    .deps/venv/bin/python bench/startup.py [--rounds 3]

Beside them two yardsticks: the peer's process with one step (its imports included), and Python importing torch.
"""
import argparse
import json
import statistics
import sys

import common


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    a = parser.parse_args()
    machine = common.machine()
    few = ["run.steps=10", "run.eval_every=0", "run.checkpoint_every=0"]
    ways = {f"tutti, {n} rank{'s' * (n > 1)}": lambda n=n: common.tutti_train([*few, "batch.micro=2"], ranks=n)["startup_s"] for n in (1, 2, 4)}
    ways["PyTorch loop: process with one step and validation"] = lambda: common.run([sys.executable, "bench/shakespeare_torch.py", "--steps", 1], 300)[1]
    ways["python -c 'import torch'"] = lambda: common.run([sys.executable, "-W", "ignore", "-c", "import torch"], 300)[1]
    rows = {name: [] for name in ways}
    for _ in range(a.rounds):
        for name, measure in ways.items():
            rows[name].append(measure())
    common.table("Start-up, seconds", ["", "median", "least"], [[name, statistics.median(v), min(v)] for name, v in rows.items()])
    print(json.dumps({"bench": "startup", "machine": machine, "rounds": rows}))


if __name__ == "__main__":
    main()
