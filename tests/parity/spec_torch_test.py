"""spec's counts against PyTorch's: parameters of modules, FLOPs of torch.utils.flop_counter, operation by operation.

    python3 tests/parity/spec_torch_test.py build/tests/parity/spec_counts     (the Python must have torch)

The models here are plain torch and share nothing with ours but the sizes. Every preset's parameters are counted on the meta
device; FLOPs of forward and backward at small sizes and, cut to two layers, at the width of every preset.
"""
import json
import subprocess
import sys
import unittest

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

COUNTS = sys.argv.pop(1)


def spec(sequence, **model):
    words = [f"{key}={value}" for key, value in model.items()]
    done = subprocess.run([COUNTS, str(sequence), *words], capture_output=True, text=True, timeout=60, check=True)
    return json.loads(done.stdout)


class Core(nn.Module):
    """softmax(q k^T) v with the whole score matrix."""

    def forward(self, q, k, v):
        return torch.matmul(torch.softmax(torch.matmul(q, k.transpose(-1, -2)), -1), v)


class Attention(nn.Module):
    def __init__(self, m, bias):
        super().__init__()
        self.heads, self.kv = m["heads"], m["kv_heads"]
        self.size = m["hidden"] // m["heads"]
        self.qkv = nn.Linear(m["hidden"], (self.heads + 2 * self.kv) * self.size, bias=bias)
        self.core = Core()
        self.proj = nn.Linear(m["hidden"], m["hidden"], bias=bias)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(x).split([self.heads * self.size, self.kv * self.size, self.kv * self.size], -1)
        q = q.view(b, t, self.heads, self.size).transpose(1, 2)
        k, v = (y.view(b, t, self.kv, self.size).transpose(1, 2).repeat_interleave(self.heads // self.kv, 1) for y in (k, v))
        return self.proj(self.core(q, k, v).transpose(1, 2).reshape(b, t, c))


class Gelu(nn.Module):
    def __init__(self, m):
        super().__init__()
        self.fc = nn.Linear(m["hidden"], m["ffn"])
        self.proj = nn.Linear(m["ffn"], m["hidden"])

    def forward(self, x):
        return self.proj(nn.functional.gelu(self.fc(x)))


class Gated(nn.Module):
    def __init__(self, hidden, width):
        super().__init__()
        self.gate = nn.Linear(hidden, width, bias=False)
        self.up = nn.Linear(hidden, width, bias=False)
        self.down = nn.Linear(width, hidden, bias=False)

    def forward(self, x):
        return self.down(nn.functional.silu(self.gate(x)) * self.up(x))


class Experts(nn.Module):
    def __init__(self, m):
        super().__init__()
        self.k = m["top_k"]
        self.router = nn.Linear(m["hidden"], m["experts"], bias=False)
        self.experts = nn.ModuleList(Gated(m["hidden"], m["expert_ffn"]) for _ in range(m["experts"]))
        self.shared = Gated(m["hidden"], m["shared_experts"] * m["expert_ffn"]) if m["shared_experts"] else None

    def forward(self, x):
        flat = x.view(-1, x.shape[-1])
        weights, chosen = torch.softmax(self.router(flat), -1).topk(self.k, -1)
        out = torch.zeros_like(flat)
        for number, expert in enumerate(self.experts):
            rows, slot = torch.where(chosen == number)
            if len(rows):
                out = out.index_add(0, rows, expert(flat[rows]) * weights[rows, slot].unsqueeze(1))
        if self.shared is not None:
            out = out + self.shared(flat)
        return out.view_as(x)


class Block(nn.Module):
    def __init__(self, m, layer):
        super().__init__()
        gpt = m["kind"] == "gpt2"
        norm = nn.LayerNorm if gpt else nn.RMSNorm
        self.norm1, self.norm2 = norm(m["hidden"]), norm(m["hidden"])
        self.attn = Attention(m, bias=gpt)
        if gpt:
            self.mlp = Gelu(m)
        elif m["kind"] == "moe" and layer >= m["dense_layers"]:
            self.mlp = Experts(m)
        else:
            self.mlp = Gated(m["hidden"], m["ffn"])

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Decoder(nn.Module):
    def __init__(self, m):
        super().__init__()
        gpt = m["kind"] == "gpt2"
        self.tok = nn.Embedding(m["vocab"], m["hidden"])
        self.pos = nn.Embedding(m["context"], m["hidden"]) if gpt else None
        self.blocks = nn.ModuleList(Block(m, layer) for layer in range(m["layers"]))
        self.norm_f = (nn.LayerNorm if gpt else nn.RMSNorm)(m["hidden"])
        self.head = nn.Linear(m["hidden"], m["vocab"], bias=False)
        if m["tied"]:
            self.head.weight = self.tok.weight

    def forward(self, tokens):
        x = self.tok(tokens)
        if self.pos is not None:
            x = x + self.pos.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm_f(x))


class Bottleneck(nn.Module):
    def __init__(self, inside, width, stride):
        super().__init__()
        def conv(i, o, k, s):
            return nn.Sequential(nn.Conv2d(i, o, k, s, k // 2, bias=False), nn.BatchNorm2d(o))
        self.a, self.b, self.c = conv(inside, width, 1, 1), conv(width, width, 3, stride), conv(width, 4 * width, 1, 1)
        self.down = conv(inside, 4 * width, 1, stride) if inside != 4 * width else None

    def forward(self, x):
        y = self.c(torch.relu(self.b(torch.relu(self.a(x)))))
        return torch.relu(y + (x if self.down is None else self.down(x)))


class Resnet(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(),
                                  nn.MaxPool2d(3, 2, 1))
        blocks, inside = [], 64
        for stage, count in enumerate((3, 4, 6, 3)):
            for number in range(count):
                blocks.append(Bottleneck(inside, 64 << stage, 2 if stage and not number else 1))
                inside = 4 * (64 << stage)
        self.blocks = nn.Sequential(*blocks)
        self.fc = nn.Linear(inside, classes)

    def forward(self, x):
        return self.fc(self.blocks(self.stem(x)).mean((2, 3)))


def measured(model, inputs):
    """FLOPs of forward, and of forward and backward, by module name."""
    with FlopCounterMode(display=False) as forward:
        out = model(inputs)
    with FlopCounterMode(display=False) as both:
        model(inputs).sum().backward()
    del out
    sums = lambda counter: {name: sum(ops.values()) for name, ops in counter.get_flop_counts().items()}
    return sums(forward), sums(both)


def rows_of_linears(model, inputs):
    """Rows that each nn.Linear of the model gets, by its name."""
    rows, hooks = {}, []
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear):
            hooks.append(module.register_forward_pre_hook(
                lambda _, args, name=name: rows.update({name: args[0].numel() // args[0].shape[-1]})))
    model(inputs)
    for hook in hooks:
        hook.remove()
    return rows


def linear_alone(linear, rows):
    """FLOPs of forward and backward. PyTorch's own attribution of backward to modules mixes up branches (gate and up)."""
    x = torch.zeros(rows, linear.in_features, device=linear.weight.device, requires_grad=True)
    with FlopCounterMode(display=False) as both:
        linear(x).sum().backward()
    return both.get_total_flops()


def parameters(module):
    return sum(p.numel() for p in module.parameters())


# Where an operation of spec lives in the module of one block.
PLACES = {"norm1": ["norm1"], "norm2": ["norm2"], "attn.qkv": ["attn.qkv"], "attn.core": ["attn.core"],
          "attn.proj": ["attn.proj"], "fc": ["mlp.fc"], "proj": ["mlp.proj"], "mlp.gate": ["mlp.gate", "mlp.shared.gate"],
          "mlp.up": ["mlp.up", "mlp.shared.up"], "mlp.down": ["mlp.down", "mlp.shared.down"], "router": ["mlp.router"]}

SMALL = {
    "gpt2": dict(kind="gpt2", layers=3, hidden=48, heads=4, vocab=101, context=32),
    "llama, grouped queries": dict(kind="llama", layers=2, hidden=64, heads=8, kv_heads=2, ffn=112, vocab=77, context=64),
    "mixture": dict(kind="moe", layers=3, hidden=32, heads=4, kv_heads=2, ffn=80, vocab=50, context=32, experts=6, top_k=2,
                    expert_ffn=24),
    "mixture, shared experts, first layer dense": dict(kind="moe", layers=3, hidden=32, heads=4, kv_heads=4, ffn=80, vocab=50,
                                                       context=32, experts=5, top_k=3, expert_ffn=24, shared_experts=2,
                                                       dense_layers=1),
}


class Spec(unittest.TestCase):
    def compare_operations(self, counts, model, inputs, forward, both):
        """Each operation of each kind of block, at the first block of that kind."""
        rows = rows_of_linears(model, inputs)

        def total(block, name, module):
            if isinstance(module, nn.Linear):
                return linear_alone(module, rows[f"{block}.{name}"]) if f"{block}.{name}" in rows else 0
            return both.get(f"{type(model).__name__}.{block}.{name}", 0)

        layer = 0
        for kind in counts["layers"][1:-1]:
            block = model.blocks[layer]
            names = dict(block.named_modules())
            prefix = f"{type(model).__name__}.blocks.{layer}."
            for operation in kind["operations"]:
                places = PLACES.get(operation["name"], [])
                if operation["name"].startswith("experts."):
                    which = operation["name"].split(".")[1]
                    places = [name for name in names if name.startswith("mlp.experts.") and name.endswith(which)]
                places = [name for name in places if name in names]
                with self.subTest(operation=operation["name"]):
                    self.assertEqual(sum(parameters(names[place]) for place in places), operation["parameters"])
                    self.assertEqual(sum(forward.get(prefix + place, 0) for place in places), operation["forward"])
                    self.assertEqual(sum(total(f"blocks.{layer}", place, names[place]) for place in places),
                                     operation["forward"] + operation["backward"])
            layer += kind["count"]

    def test_operations_of_small_models(self):
        torch.manual_seed(0)
        for name, sizes in SMALL.items():
            with self.subTest(name):
                counts = spec(24, **sizes)
                model = Decoder(counts["model"])
                tokens = torch.randint(0, sizes["vocab"], (1, 24))
                forward, both = measured(model, tokens)
                self.assertEqual(parameters(model), counts["parameters"])
                self.assertEqual(forward["Global"], counts["forward"])
                self.assertEqual(both["Global"], counts["forward"] + counts["backward"])
                self.compare_operations(counts, model, tokens, forward, both)

    def test_operations_at_the_width_of_every_decoder_preset(self):
        for preset in spec(1, preset="gpt2-124m")["presets"]:
            full = spec(64, preset=preset)["model"]
            if full["kind"] not in ("gpt2", "llama"):
                continue  # routing needs values, which the meta device has not
            with self.subTest(preset):
                counts = spec(64, preset=preset, layers=2)
                with torch.device("meta"):
                    model = Decoder(counts["model"])
                    tokens = torch.zeros((1, 64), dtype=torch.long)
                    forward, both = measured(model, tokens)
                    self.assertEqual(forward["Global"], counts["forward"])
                    self.assertEqual(both["Global"], counts["forward"] + counts["backward"])
                    self.compare_operations(counts, model, tokens, forward, both)

    def test_parameters_of_every_preset(self):
        for preset in spec(1, preset="gpt2-124m")["presets"]:
            counts = spec(1, preset=preset)
            with self.subTest(preset), torch.device("meta"):
                resnet = counts["model"]["kind"] == "resnet50"
                model = Resnet(counts["model"]["vocab"]) if resnet else Decoder(counts["model"])
                self.assertEqual(parameters(model), counts["parameters"])

    def test_operations_of_resnet50(self):
        for image in (64, 224):
            with self.subTest(image), torch.device("meta"):
                counts = spec(1, preset="resnet50", context=image)
                forward, both = measured(Resnet(1000), torch.zeros((1, 3, image, image)))
                self.assertEqual(forward["Global"], counts["forward"])
                self.assertEqual(both["Global"], counts["forward"] + counts["backward"])
                self.assertEqual(forward["Resnet.stem"],
                                 sum(o["forward"] for o in counts["layers"][0]["operations"]))
                for number, kind in enumerate(counts["layers"][1:-1]):
                    self.assertEqual(forward[f"Resnet.blocks.{number}"], sum(o["forward"] for o in kind["operations"]))
                    self.assertEqual(both[f"Resnet.blocks.{number}"],
                                     sum(o["forward"] + o["backward"] for o in kind["operations"]))


if __name__ == "__main__":
    unittest.main()
