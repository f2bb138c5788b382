"""GPT-2 124M, a hundred steps of AdamW: two ranks of ours against PyTorch, from the same start on the same batches of real text.

    .deps/venv/bin/python tests/parity/gpt2_124m_test.py build/tutti build/tests/parity/sample_order     (needs torch, 6 GiB)

PyTorch trains twice, in fp64, which is the truth, and in fp32, whose distance from it is the yardstick: ours may be four times as
far. It trains by gpt_torch.py's plain model and torch.optim.AdamW; what it takes from the program are the initial values (out of
a checkpoint), the order of the samples and the learning rates, which other tests check.
"""
import array
import json
import math
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

import torch
import torch.nn.functional as F

import gpt_torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
TUTTI, SAMPLE_ORDER = (pathlib.Path(path).resolve() for path in (sys.argv.pop(1), sys.argv.pop(1)))
LAYERS, HEADS, SEQUENCE, BATCH, STEPS, SEED = 12, 12, 128, 2, 100, 1
# Its gradient is zero but for rounding, and Adam makes whole steps of that.
KEY_BIAS = slice(768, 2 * 768)


def tutti(*words):
    done = subprocess.run([TUTTI, *map(str, words)], cwd=ROOT, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, f"{words}\n{done.stderr}"


def train(folder, run, *overrides):
    """Trains two ranks and returns the folder of the run."""
    tutti("train", "examples/gpt2-124m.toml", "-n", 2, f"data.train={folder}/text.tokens", "data.valid=0", f"data.sequence={SEQUENCE}",
          "batch.micro=1", f"batch.global={BATCH}", "run.eval_every=0", f"run.seed={SEED}", "run.precision=fp32",
          f"run.dir={folder}/{run}", *overrides)
    return folder / run


def checkpoint(run):
    """Parameters of the last checkpoint of a run, by name, in fp32."""
    folder = max((run / "checkpoints").glob("step-*"), key=lambda path: int(path.name.removeprefix("step-")))
    values = {}
    for tensor in json.loads((folder / "index.json").read_text())["tensors"]:
        if "/" in tensor["name"]:
            continue  # moments
        flat = torch.full((math.prod(tensor["shape"]),), math.nan)
        for piece in tensor["pieces"]:
            with open(folder / piece["file"], "rb") as file:
                (length,) = struct.unpack("<Q", file.read(8))
                begin, end = json.loads(file.read(length))[piece["key"]]["data_offsets"]
                file.seek(8 + length + begin)
                flat[piece["first"]:piece["first"] + piece["count"]] = torch.frombuffer(bytearray(file.read(end - begin)), dtype=torch.float32)
        assert not flat.isnan().any(), f"{tensor['name']} is not whole"
        values[tensor["name"]] = flat.view(tensor["shape"])
    return values


def batches(folder):
    """[STEPS, BATCH, SEQUENCE + 1] tokens, in the program's order. The header of a token file has 128 bytes."""
    body = array.array("H", (folder / "text.tokens").read_bytes()[128:])
    (count,) = struct.unpack_from("<Q", (folder / "text.tokens").read_bytes(), 24)
    samples = (count - 1) // SEQUENCE
    order = subprocess.run([SAMPLE_ORDER, str(samples), str(SEED), str(STEPS * BATCH)], capture_output=True, text=True, check=True).stdout.split()
    rows = [list(body[int(k) * SEQUENCE:int(k) * SEQUENCE + SEQUENCE + 1]) for k in order]
    return torch.tensor(rows).view(STEPS, BATCH, SEQUENCE + 1)


def pytorch(start, tokens, rates, dtype):
    """Losses, and parameters after the last step."""
    p = {name: value.to(dtype, copy=True).requires_grad_() for name, value in start.items()}
    optimizer, losses = gpt_torch.adamw(p), []
    for batch, lr in zip(tokens, rates, strict=True):
        logits = gpt_torch.forward(p, batch[:, :-1], LAYERS, HEADS)
        loss = F.cross_entropy(logits.view(-1, logits.shape[-1]), batch[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(p.values(), gpt_torch.CLIP, foreach=False)
        for group in optimizer.param_groups:
            group["lr"] = lr
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses, {name: value.detach() for name, value in p.items()}


def error(values, truth, name):
    """||T - T64|| / ||T64||."""
    difference = values.double() - truth
    if name.endswith("attn.qkv.bias"):
        difference[KEY_BIAS] = 0
    return float(difference.norm() / truth.norm())


class HundredSteps(unittest.TestCase):
    def test_losses_and_parameters_are_as_near_to_fp64_as_pytorch_is(self):
        with tempfile.TemporaryDirectory(prefix="tutti-124m-") as name:
            folder = pathlib.Path(name)
            tutti("data", "prepare", *sorted((ROOT / ".deps/shakespeare").glob("*.txt")), "--tokenizer", "gpt2", "-o", folder / "text.tokens")
            # A step that moves nothing: 1e-30 is below the last bit of whatever is not zero.
            start = checkpoint(train(folder, "start", "run.steps=1", "run.checkpoint_every=1", "optim.kind=sgd", "optim.lr=1e-30",
                                     "optim.min_lr=1e-30", "optim.warmup_steps=0"))
            run = train(folder, "run", f"run.steps={STEPS}", f"run.checkpoint_every={STEPS}", f"optim.lr={gpt_torch.LR}",
                        f"optim.betas={list(gpt_torch.BETAS)}", f"optim.eps={gpt_torch.EPS}", f"optim.weight_decay={gpt_torch.DECAY}",
                        f"optim.clip={gpt_torch.CLIP}")
            lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
            ours, rates = [line["loss"] for line in lines], [line["lr"] for line in lines]
            trained, tokens = checkpoint(run), batches(folder)
        losses64, truth = pytorch(start, tokens, rates, torch.float64)
        losses32, trained32 = pytorch(start, tokens, rates, torch.float32)
        self.assertLess(losses64[-1], losses64[0] - 2, "nothing was learnt")

        yardstick = max(abs(a - b) for a, b in zip(losses32, losses64))
        furthest = max(abs(a - b) for a, b in zip(ours, losses64))
        print(f"losses {losses64[0]:.3f} -> {losses64[-1]:.3f}; from fp64 at most: ours {furthest:.2e}, PyTorch {yardstick:.2e}")
        self.assertEqual(len(ours), STEPS)
        self.assertLessEqual(furthest, 4 * yardstick + 1e-6)

        self.assertEqual(trained.keys(), truth.keys())
        worst = (0.0, "")
        for name, value in truth.items():
            mine, peers = error(trained[name], value, name), error(trained32[name], value, name)
            worst = max(worst, (mine / peers, f"{name}: ours {mine:.2e}, PyTorch {peers:.2e}"))
            with self.subTest(name):
                self.assertLessEqual(mine, 4 * peers + 1e-6)
        print(f"{len(truth)} parameters, the worst of them {worst[1]}")


if __name__ == "__main__":
    torch.set_num_threads(os.cpu_count())
    unittest.main()
