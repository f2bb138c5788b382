"""Peer of `make train`: the same model, batch and number of steps as a plain PyTorch loop in one process.

    .deps/venv/bin/python bench/shakespeare_torch.py [--config examples/shakespeare.toml] [--steps N] [--seed S] [--threads 2]

Reads our config and our token file, splits documents as we do (floor(valid x length) tokens at the end of each held out,
the rest laid one after another), and draws windows of sequence + 1 tokens without replacement, in an order of its own.
Prints one JSON line: valid_loss (nats per token, over every held-out token but the first of its document), wall_s (training
and validation, without imports), step_s (median), tokens_per_s (from the median step), steps, seed, threads.
"""
import argparse
import json
import math
import statistics
import struct
import sys
import time
import tomllib
import warnings

warnings.filterwarnings("ignore", message="Failed to initialize NumPy")
import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.qkv, self.attn_proj = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.fc, self.proj = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

    def forward(self, h_BTC):
        B, T, C = h_BTC.shape
        q, k, v = (x.view(B, T, self.heads, -1).transpose(1, 2) for x in self.qkv(self.ln1(h_BTC)).split(C, dim=-1))
        a_BTC = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(B, T, C)
        h_BTC = h_BTC + self.attn_proj(a_BTC)
        return h_BTC + self.proj(F.gelu(self.fc(self.ln2(h_BTC)), approximate="tanh"))


class GPT2(nn.Module):
    """Tied head, learned positions; normal(0, 0.02), the two projections into the residual by 1 / sqrt(2 layers) smaller."""

    def __init__(self, layers, hidden, heads, vocab, context):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, hidden), nn.Embedding(context, hidden)
        self.blocks = nn.ModuleList(Block(hidden, heads) for _ in range(layers))
        self.ln_f = nn.LayerNorm(hidden)
        for name, p in self.named_parameters():
            if p.dim() >= 2:
                nn.init.normal_(p, std=0.02 / (math.sqrt(2 * layers) if "proj" in name else 1))
            elif name.endswith("bias"):
                nn.init.zeros_(p)

    def forward(self, x_BT):
        h_BTC = self.wte(x_BT) + self.wpe(torch.arange(x_BT.shape[1]))
        for block in self.blocks:
            h_BTC = block(h_BTC)
        return F.linear(self.ln_f(h_BTC), self.wte.weight)


def read_tokens(path):
    """(tokens as int64, places of the documents' first tokens and the end); the format is in src/data/token_file.h."""
    with open(path, "rb") as file:
        raw = bytearray(file.read())
    magic, version, width, _, tokens, documents = struct.unpack_from("<8sIIQQQ", raw)
    if magic != b"TUTTITOK" or version != 1:
        sys.exit(f"{path} is no token file of version 1. Make it with: make data")
    dtype = {1: torch.uint8, 2: torch.uint16, 4: torch.uint32}[width]
    ids = torch.frombuffer(raw, dtype=dtype, count=tokens, offset=128).long()
    starts = struct.unpack_from(f"<{documents}Q", raw, 128 + tokens * width)
    return ids, [*starts, tokens]


def split(ids, starts, share):
    """(training tokens in one piece, list of the documents' held-out parts)."""
    train, held_out = [], []
    for begin, end in zip(starts, starts[1:]):
        cut = end - math.floor(share * (end - begin))
        train.append(ids[begin:cut])
        held_out.append(ids[cut:end])
    return torch.cat(train), held_out


def windows(tokens, sequence):
    """[windows, sequence + 1], starting at multiples of `sequence`, as many as fit."""
    return tokens.unfold(0, sequence + 1, sequence)


def valid_loss(model, held_out, sequence, share=1.0):
    """Nats per predicted token over whole windows and each document's shorter last one. `share`: of the whole windows."""
    total, count = 0.0, 0
    with torch.no_grad():
        whole = torch.cat([windows(tokens, sequence) for tokens in held_out if len(tokens) > sequence])
        ragged = [tokens[(len(tokens) - 1) // sequence * sequence:] for tokens in held_out]
        every = max(1, round(1 / share))
        batches = list(whole[::every].split(64)) + ([] if every > 1 else [t[None] for t in ragged if len(t) > 1])
        for w in batches:
            logits = model(w[:, :-1])
            total += F.cross_entropy(logits.flatten(0, 1), w[:, 1:].flatten(), reduction="sum").item()
            count += w[:, 1:].numel()
    return total / count


def lr_at(step, optim, steps):
    """Step 1 .. steps: linear warm-up, then a cosine from lr to min_lr."""
    if step <= optim["warmup_steps"]:
        return optim["lr"] * step / optim["warmup_steps"]
    done = (step - optim["warmup_steps"]) / max(1, steps - optim["warmup_steps"])
    return optim["min_lr"] + 0.5 * (optim["lr"] - optim["min_lr"]) * (1 + math.cos(math.pi * done))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", default="examples/shakespeare.toml")
    parser.add_argument("--steps", type=int, default=0, help="0: the config's")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    a = parser.parse_args()
    with open(a.config, "rb") as file:
        config = tomllib.load(file)
    data, optim, shape = config["data"], config["optim"], config["model"]
    steps, batch, sequence = a.steps or config["run"]["steps"], config["batch"]["global"], data["sequence"]
    torch.set_num_threads(a.threads)
    torch.manual_seed(a.seed)

    began = time.perf_counter()
    train, held_out = split(*read_tokens(data["train"]), data["valid"])
    samples = windows(train, sequence)
    model = GPT2(*(shape[key] for key in ("layers", "hidden", "heads", "vocab", "context")))
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    vectors = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": matrices, "weight_decay": optim["weight_decay"]}, {"params": vectors, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=optim["lr"], betas=optim["betas"], fused=True)
    order, times = torch.empty(0, dtype=torch.long), []
    for step in range(1, steps + 1):
        start = time.perf_counter()
        if len(order) < batch:
            order = torch.cat([order, torch.randperm(len(samples))])
        w, order = samples[order[:batch]], order[batch:]
        for group in optimizer.param_groups:
            group["lr"] = lr_at(step, optim, steps)
        loss = F.cross_entropy(model(w[:, :-1]).flatten(0, 1), w[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), optim["clip"])
        optimizer.step()
        times.append(time.perf_counter() - start)
        if step % config["run"]["eval_every"] == 0 and step < steps:
            sampled = valid_loss(model, held_out, sequence, share=0.1)
            print(f"step {step}: loss {loss.item():.4f}, sampled valid {sampled:.4f}", file=sys.stderr, flush=True)
    final = valid_loss(model, held_out, sequence)
    step_s = statistics.median(times)
    print(json.dumps({"peer": f"torch-{torch.__version__}", "steps": steps, "seed": a.seed, "threads": a.threads,
                      "params": sum(p.numel() for p in model.parameters()), "valid_loss": round(final, 5),
                      "wall_s": round(time.perf_counter() - began, 2), "step_s": round(step_s, 5),
                      "tokens_per_s": round(batch * sequence / step_s, 1)}))


if __name__ == "__main__":
    main()
