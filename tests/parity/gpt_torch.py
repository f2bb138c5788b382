"""Makes the PyTorch reference that our model is compared with: gpt_torch.safetensors and gpt_torch.json.

    .deps/venv/bin/python tests/parity/gpt_torch.py [FOLDER]     (default: this folder; needs torch 2.13)

A tiny GPT-2 written on plain tensors, so that PyTorch's own autograd, fused attention and AdamW are all it relies on. Every
parameter starts away from zero and one, so no gradient is zero or equal to another by symmetry of the start. Two runs from
the same start on the same batches, in fp32 and in fp64; the fp64 one is the truth, the error of the fp32 one the yardstick.

gpt_torch.safetensors
  init.NAME          F32  initial parameters, under our names and shapes
  tokens             U8   [steps, batch, sequence + 1]: inputs are [..., :-1], targets [..., 1:]
  logits             F32  [batch, sequence, vocab] of step 1, and logits64 in F64
  grad32.sK.NAME     F32  gradient of the mean loss at step K (1, 20) before clipping, along the fp32 run
  grad64.sK.NAME     F64  the same along the fp64 run
gpt_torch.json
  model, optim       the sizes and settings of this file
  loss32, loss64     mean loss in nats of each step, before that step's update
  grad_norm32, ..64  norm of all gradients before clipping, each step
  error32.sK.NAME    ||g32 - g64|| / max(||g64||, 1e-6 rms(all g64) sqrt(n)): the error whose fourfold is the band
"""
import json
import math
import pathlib
import struct
import sys

import torch
import torch.nn.functional as F

LAYERS, HIDDEN, HEADS, VOCAB, CONTEXT, SEQUENCE = 2, 32, 4, 61, 16, 16
STEPS, BATCH, GRADIENT_STEPS = 100, 4, (1, 20)
LR, BETAS, EPS, DECAY, CLIP = 1e-3, (0.9, 0.95), 1e-8, 0.1, 1.0
DTYPES = {torch.float32: "F32", torch.float64: "F64", torch.uint8: "U8"}


def shapes():
    """Logical parameters in the order of the model: name -> shape. Matrices are [out, in]."""
    C = HIDDEN
    rows = {"wte.weight": (VOCAB, C), "wpe.weight": (CONTEXT, C)}
    for n in range(LAYERS):
        block = {"ln1.weight": (C,), "ln1.bias": (C,), "attn.qkv.weight": (3 * C, C), "attn.qkv.bias": (3 * C,),
                 "attn.proj.weight": (C, C), "attn.proj.bias": (C,), "ln2.weight": (C,), "ln2.bias": (C,),
                 "fc.weight": (4 * C, C), "fc.bias": (4 * C,), "proj.weight": (C, 4 * C), "proj.bias": (C,)}
        rows |= {f"blocks.{n}.{name}": shape for name, shape in block.items()}
    return rows | {"ln_f.weight": (C,), "ln_f.bias": (C,)}


def initial(generator):
    """Far larger values than GPT-2's 0.02: every part of the model shall matter to the loss."""
    values = {}
    for name, shape in shapes().items():
        noise = torch.randn(shape, generator=generator)
        is_norm = ".ln" in name or name.startswith("ln_f")
        values[name] = (1 + 0.1 * noise) if is_norm and name.endswith("weight") else 0.1 * noise
    return values


def batches(generator):
    """[STEPS, BATCH, SEQUENCE + 1]: arithmetic progressions mod VOCAB with every eighth token replaced, so there is something
    to learn (the loss falls) and something that cannot be learned (it stays well above zero)."""
    size = (STEPS, BATCH, 1)
    start = torch.randint(0, VOCAB, size, generator=generator)
    stride = torch.randint(1, 6, size, generator=generator)
    tokens = (start + stride * torch.arange(SEQUENCE + 1)) % VOCAB
    noise = torch.randint(0, VOCAB, tokens.shape, generator=generator)
    return torch.where(torch.rand(tokens.shape, generator=generator) < 1 / 8, noise, tokens)


def forward(p, x_BT, layers=LAYERS, heads=HEADS):
    """Logits [B, T, V]. Pre-norm blocks, tanh GELU, rows of qkv in the order q, k, v, head tied to wte."""
    B, T = x_BT.shape
    C = p["wte.weight"].shape[1]
    h_BTC = p["wte.weight"][x_BT] + p["wpe.weight"][:T]
    for n in range(layers):
        w = {name.removeprefix(f"blocks.{n}."): value for name, value in p.items() if name.startswith(f"blocks.{n}.")}
        a_BTC = F.layer_norm(h_BTC, (C,), w["ln1.weight"], w["ln1.bias"], 1e-5)
        q, k, v = (t.view(B, T, heads, -1).transpose(1, 2)
                   for t in F.linear(a_BTC, w["attn.qkv.weight"], w["attn.qkv.bias"]).split(C, dim=-1))
        y_BTC = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(B, T, C)
        h_BTC = h_BTC + F.linear(y_BTC, w["attn.proj.weight"], w["attn.proj.bias"])
        m_BTC = F.layer_norm(h_BTC, (C,), w["ln2.weight"], w["ln2.bias"], 1e-5)
        m_BTF = F.gelu(F.linear(m_BTC, w["fc.weight"], w["fc.bias"]), approximate="tanh")
        h_BTC = h_BTC + F.linear(m_BTF, w["proj.weight"], w["proj.bias"])
    return F.linear(F.layer_norm(h_BTC, (C,), p["ln_f.weight"], p["ln_f.bias"], 1e-5), p["wte.weight"])


def adamw(p):
    """Decay on matrices alone."""
    decayed = [v for name, v in p.items() if name.endswith("weight") and v.dim() >= 2]
    others = [v for name, v in p.items() if not (name.endswith("weight") and v.dim() >= 2)]
    groups = [{"params": decayed, "weight_decay": DECAY}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=LR, betas=BETAS, eps=EPS, foreach=False)


def run(start, tokens, dtype):
    """Trains from `start` in `dtype`; returns losses, gradient norms, first logits, {step: {name: gradient}}."""
    p = {name: value.to(dtype, copy=True).requires_grad_() for name, value in start.items()}
    optimizer = adamw(p)
    losses, norms, logits, gradients = [], [], None, {}
    for step in range(1, STEPS + 1):
        batch = tokens[step - 1]
        out = forward(p, batch[:, :-1])
        loss = F.cross_entropy(out.view(-1, VOCAB), batch[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        if step == 1:
            logits = out.detach().clone()
        if step in GRADIENT_STEPS:
            gradients[step] = {name: value.grad.clone() for name, value in p.items()}
        norms.append(float(torch.nn.utils.clip_grad_norm_(p.values(), CLIP, foreach=False)))
        losses.append(float(loss.detach()))
        optimizer.step()
    return losses, norms, logits, gradients


def errors(g32, g64):
    """The certificate's error of each tensor (see the head of this file)."""
    total = sum(float(g.square().sum()) for g in g64.values())
    rms = math.sqrt(total / sum(g.numel() for g in g64.values()))
    return {name: float((g32[name].double() - g).norm()) / max(float(g.norm()), 1e-6 * rms * math.sqrt(g.numel()))
            for name, g in g64.items()}


def write_safetensors(path, tensors):
    """8 bytes header length, JSON header padded to 8 bytes, the bytes of the tensors one after another; little-endian."""
    header, offset = {}, 0
    for name, tensor in tensors.items():
        end = offset + tensor.numel() * tensor.element_size()
        header[name] = {"dtype": DTYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for tensor in tensors.values():
            file.write(bytes(tensor.contiguous().view(torch.uint8).flatten().tolist()))


def main():
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent
    torch.set_num_threads(1)  # one order of additions: the same files every time on one kind of processor
    torch.use_deterministic_algorithms(True)
    generator = torch.Generator().manual_seed(20240607)
    start, tokens = initial(generator), batches(generator)
    loss32, norm32, logits32, grads32 = run(start, tokens, torch.float32)
    loss64, norm64, logits64, grads64 = run(start, tokens, torch.float64)

    # fp64 first: every tensor then starts on a multiple of its element's size.
    tensors = {f"grad64.s{k}.{name}": g for k in GRADIENT_STEPS for name, g in grads64[k].items()}
    tensors |= {"logits64": logits64, "logits": logits32}
    tensors |= {f"init.{name}": value for name, value in start.items()}
    tensors |= {f"grad32.s{k}.{name}": g for k in GRADIENT_STEPS for name, g in grads32[k].items()}
    tensors["tokens"] = tokens.to(torch.uint8)
    write_safetensors(folder / "gpt_torch.safetensors", tensors)
    facts = {
        "made_by": f"tests/parity/gpt_torch.py, torch {torch.__version__}",
        "model": {"kind": "gpt2", "layers": LAYERS, "hidden": HIDDEN, "heads": HEADS, "vocab": VOCAB, "context": CONTEXT,
                  "sequence": SEQUENCE, "batch": BATCH, "steps": STEPS, "norm_eps": 1e-5},
        "optim": {"kind": "adamw", "lr": LR, "schedule": "constant", "betas": BETAS, "eps": EPS, "weight_decay": DECAY,
                  "clip": CLIP},
        "loss32": loss32, "loss64": loss64, "grad_norm32": norm32, "grad_norm64": norm64,
        "error32": {f"s{k}": errors(grads32[k], grads64[k]) for k in GRADIENT_STEPS},
    }
    (folder / "gpt_torch.json").write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    main()
