"""Prints tokens/s of the Shakespeare model beside PyTorch DDP over Gloo: two processes of one thread each, the same shape.

    .deps/venv/bin/python bench/ddp.py [--rounds 5] [--steps 60]

Each round runs ours, DDP with its defaults, and DDP with a tuned malloc; ratios are taken within a round.
"""
import argparse
import json
import statistics
import sys
import tomllib

import common


def ddp(config, steps, **environment):
    model, batch = config["model"], config["batch"]
    shape = {key: model[key] for key in ("layers", "hidden", "heads", "vocab")} | {
        "seq": config["data"]["sequence"], "micro-batch": batch["micro"], "steps": steps}
    arguments = [part for key, value in shape.items() for part in (f"--{key}", value)]
    text, _ = common.run([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", 2,
                          "bench/peers/gpt2_torch.py", "--mode", "ddp", *arguments], 600, OMP_NUM_THREADS="1", **environment)
    return common.last_json(text)["tokens_per_s"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=60)
    a = parser.parse_args()
    machine = common.machine()
    config = tomllib.loads((common.ROOT / common.CONFIG).read_text())
    rows = {"tutti": [], "torch ddp": [], "torch ddp, tuned malloc": []}
    for _ in range(a.rounds):
        rows["tutti"].append(common.tutti_train([f"run.steps={a.steps}", "run.eval_every=0", "run.checkpoint_every=0"])["tokens_per_s"])
        rows["torch ddp"].append(ddp(config, a.steps))
        rows["torch ddp, tuned malloc"].append(ddp(config, a.steps, **common.TUNED_MALLOC))
    common.table("Tokens/s, two ranks, Shakespeare model", ["", "median", "least", "most", "tutti is faster by"],
                 [[name, statistics.median(v), min(v), max(v), common.median_ratio(rows["tutti"], v)] for name, v in rows.items()])
    print(json.dumps({"bench": "ddp", "machine": machine, "rounds": rows}))


if __name__ == "__main__":
    main()
