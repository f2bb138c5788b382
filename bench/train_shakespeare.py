"""Claim: `make train` learns as well as a plain PyTorch loop (same model, batch, steps), in less time on the same two cores.

    .deps/venv/bin/python bench/train_shakespeare.py [--seeds 3] [--quick]

Alternates ours (two ranks) and bench/shakespeare_torch.py (one process, two threads), a pair per seed. Prints a Markdown
table and one JSON line. Bars: mean difference of the validation loss within 0.01 nats per byte; wall time <= 0.9x, whole
processes, start to end. --quick: 200 steps, to see that it runs; its figures mean nothing.
"""
import argparse
import json
import statistics
import sys

import common


def pair(seed, steps):
    """(ours, theirs), each {valid_loss, wall_s, tokens_per_s}; who goes first changes with the seed."""
    def ours():
        return common.tutti_train([f"run.seed={seed}"] + ([f"run.steps={steps}"] if steps else []))

    def theirs():
        text, wall_s = common.run([sys.executable, "bench/shakespeare_torch.py", "--seed", seed, "--steps", steps], 1200)
        return {**common.last_json(text), "wall_s": round(wall_s, 2)}

    if seed % 2:
        first = ours()
        return first, theirs()
    second = theirs()
    return ours(), second


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--quick", action="store_true")
    a = parser.parse_args()
    machine = common.machine()
    pairs = [pair(seed, 200 if a.quick else 0) for seed in range(1, a.seeds + 1)]
    common.table("Shakespeare: tutti on two ranks beside a PyTorch loop with two threads",
                 ["seed", "loss tutti", "loss torch", "wall s tutti", "wall s torch", "ratio", "tokens/s tutti", "tokens/s torch"],
                 [[seed, o["valid_loss"], t["valid_loss"], o["wall_s"], t["wall_s"], o["wall_s"] / t["wall_s"],
                   o["tokens_per_s"], t["tokens_per_s"]] for seed, (o, t) in enumerate(pairs, 1)])
    difference = statistics.mean(o["valid_loss"] for o, _ in pairs) - statistics.mean(t["valid_loss"] for _, t in pairs)
    ratio = common.median_ratio([o["wall_s"] for o, _ in pairs], [t["wall_s"] for _, t in pairs])
    print(f"\nMean difference of the loss {difference:+.4f} nats per byte (bar: within 0.01), "
          f"wall time {ratio:.3f}x (bar: 0.9x). {machine}.")
    print(json.dumps({"bench": "train_shakespeare", "machine": machine, "quick": a.quick, "loss_difference": round(difference, 5),
                      "wall_ratio": round(ratio, 4), "tutti": [o for o, _ in pairs], "torch": [t for _, t in pairs]}))


if __name__ == "__main__":
    main()
