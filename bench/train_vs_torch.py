"""GPT-2 124M, fp32, sequence 256, two cores: ours beside PyTorch DDP and PyTorch's one process. See bench/README.md.

    .deps/venv/bin/python bench/train_vs_torch.py [--quick] [--minutes 15] [--only NAME...] [--out FOLDER]

Rounds in which each case runs once, one after the other; medians over the rounds, ratios of medians. A case's round is marked
and left out where something else used the cores while it stepped: more than 3 % of their time by /proc/stat (time that
the host of a virtual machine stole included). Nothing is hidden: the table says how many rounds counted, the JSON holds all.
Tokens are random with the frequencies of a language; the model is the one that every case trains, so the figures are speeds only.
Writes OUT/train_vs_torch.md and .json (OUT: runs/bench).
"""
import argparse
import array
import json
import os
import pathlib
import random
import statistics
import struct
import subprocess
import sys
import tempfile
import time

import common

SEQUENCE, VOCAB, LAYERS, HIDDEN = 256, 50257, 12, 768
FLOPS_PER_TOKEN = 6 * (VOCAB * HIDDEN + LAYERS * 12 * HIDDEN**2) + 6 * LAYERS * HIDDEN * SEQUENCE  # products, causal attention
FOREIGN_LIMIT = 0.03  # share of the cores' time
TICK = os.sysconf("SC_CLK_TCK")
SAMPLE_S = 0.1

# name -> (kind: "ours" or the peer's --mode and more, ranks, threads, micro-batch, steps, steps with --quick, environment, overrides)
CASES = {
    "ours, mb 1": ("ours", 2, 1, 1, 12, 8, {}, []),
    "DDP, mb 1": ("ddp", 2, 1, 1, 6, 4, {}, []),
    "DDP tuned, mb 1": ("ddp", 2, 1, 1, 6, 4, common.TUNED_MALLOC, []),
    "ours dry, mb 1": ("ours", 2, 1, 1, 12, 8, {}, ["comm.dry=true"]),
    "ours, 1 rank 2 threads": ("ours", 1, 2, 2, 12, 8, {}, []),
    "torch tuned, 1 process 2 threads": ("single", 1, 2, 2, 6, 4, common.TUNED_MALLOC, []),
    "ours, mb 4": ("ours", 2, 1, 4, 6, 4, {}, []),
    "DDP tuned, mb 4": ("ddp", 2, 1, 4, 4, 3, common.TUNED_MALLOC, []),
    "DDP, mb 4": ("ddp", 2, 1, 4, 4, 0, {}, []),  # 0: not with --quick
}
# what is claimed: (title, numerator, denominator, bar)
RATIOS = [
    ("DDP with tuned malloc, mb 1", "ours, mb 1", "DDP tuned, mb 1", 1.5),
    ("DDP with its defaults, mb 1", "ours, mb 1", "DDP, mb 1", 1.65),
    ("DDP with tuned malloc, mb 4", "ours, mb 4", "DDP tuned, mb 4", 1.25),
    ("DDP with its defaults, mb 4", "ours, mb 4", "DDP, mb 4", None),
    ("two ranks (ours: one rank, two threads)", "ours, 1 rank 2 threads", "ours, mb 1", 0.95),
    ("PyTorch's one process, two threads, tuned malloc", "ours, 1 rank 2 threads", "torch tuned, 1 process 2 threads", 1.1),
]


def write_tokens(path, count=400_000, seed=1):
    """A token file (src/data/token_format.h) of one document. Ids are drawn log-uniformly, which is Zipf's law: id k about 1/k.
    The header names the tokenizer "bytes", because a run keeps a copy of its tokenizer; nobody decodes these. Its hash of the body
    is zero: only `verify_body` reads it."""
    numbers = random.Random(seed)
    tokens = array.array("H", (min(VOCAB - 1, int((VOCAB + 1) ** numbers.random()) - 1) for _ in range(count)))
    if sys.byteorder != "little":
        tokens.byteswap()
    header = struct.pack("<8sIIQQQQQ40s32s", b"TUTTITOK", 1, 2, VOCAB, count, 1, 0, 0, b"bytes", b"")
    path.write_bytes(header + tokens.tobytes() + struct.pack("<Q", 0))


def stat_fields(pid):
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def descendants(root):
    """All processes below `root`, itself included, as {pid: fields of /proc/PID/stat behind the name}."""
    table = {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            table[int(folder.name)] = stat_fields(folder.name)
        except (OSError, IndexError):
            pass  # ended while we looked
    family, grown = {root}, True
    while grown:
        grown = {pid for pid, fields in table.items() if int(fields[1]) in family} - family
        family |= grown
    return {pid: table[pid] for pid in family if pid in table}


def busy_s():
    """Seconds that the cores of this machine were busy with anything, stolen time included, since it started."""
    user, nice, system, _, _, irq, soft, steal = map(int, open("/proc/stat").readline().split()[1:9])
    return (user + nice + system + irq + soft + steal) / TICK


def sample(process):
    """One look: when, the machine's busy seconds, and of each of our processes (CPU seconds, minor page faults)."""
    family = descendants(process.pid)
    own = os.times()
    mine = {pid: ((int(f[11]) + int(f[12])) / TICK, int(f[7])) for pid, f in family.items()}
    return {"at": time.monotonic(), "busy": busy_s(), "self": own.user + own.system, "of": mine}


def watch(command, environment, timeout_s):
    """Runs a command to its end and samples it. Returns (stdout, samples, seconds it took)."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        began = time.monotonic()
        process = subprocess.Popen([str(c) for c in command], cwd=common.ROOT, env={**os.environ, **environment}, stdout=out, stderr=err)
        samples = []
        try:
            while process.poll() is None:
                if time.monotonic() - began > timeout_s:
                    sys.exit(f"not done after {timeout_s} s: {' '.join(map(str, command))}")
                samples.append(sample(process))
                time.sleep(SAMPLE_S)
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait(30)
        out.seek(0)
        err.seek(0)
        if process.returncode != 0:
            sys.exit(f"exit status {process.returncode}: {' '.join(map(str, command))}\n{err.read()[-2000:]}")
        return out.read(), samples, time.monotonic() - began


def end_of_work(samples, ranks):
    """When the last rank stopped to use its core, and the ranks' pids: a peer may live on for seconds without doing anything."""
    most = {}
    for look in samples:
        for pid, (cpu, _) in look["of"].items():
            most[pid] = max(most.get(pid, 0), cpu)
    busiest = sorted(most, key=lambda pid: -most[pid])[:ranks]
    return max(next(look["at"] for look in samples if pid in look["of"] and look["of"][pid][0] > most[pid] - SAMPLE_S)
               for pid in busiest), busiest


def steady(samples, seconds_of_steps, step_s, ranks):
    """What the cores did in the last `seconds_of_steps` of the ranks' work."""
    end, busiest = end_of_work(samples, ranks)
    window = [look for look in samples if end - seconds_of_steps <= look["at"] <= end and all(pid in look["of"] for pid in busiest)]
    if len(window) < 3:
        return {"foreign": None, "faults_per_step": None}
    first, last = window[0], window[-1]
    wall = last["at"] - first["at"]
    both = {pid: (last["of"][pid][0] - first["of"][pid][0], last["of"][pid][1] - first["of"][pid][1])
            for pid in last["of"] if pid in first["of"]}
    mine = sum(cpu for cpu, _ in both.values()) + last["self"] - first["self"]
    return {"foreign": (last["busy"] - first["busy"] - mine) / (wall * os.cpu_count()),
            "faults_per_step": max(both[pid][1] for pid in busiest) / (wall / step_s)}


def ours(case, tokens, steps):
    _, ranks, threads, micro, _, _, environment, overrides = case
    with tempfile.TemporaryDirectory() as folder:
        run_dir = pathlib.Path(folder) / "run"
        _, samples, _ = watch([common.TUTTI, "train", "examples/gpt2-124m.toml", f"data.train={tokens}", "data.valid=0",
                                    f"batch.micro={micro}", f"batch.global={micro * ranks}", f"run.steps={steps}", "run.eval_every=0",
                                    "run.checkpoint_every=0", f"run.threads={threads}", f"run.dir={run_dir}", "-n", ranks, *overrides],
                                   environment, 600)
        summary = json.loads((run_dir / "summary.json").read_text())
        lines = [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]
    stepping = sum(line["step_s"] for line in lines[1:])
    return {"tokens_per_s": summary["tokens_per_s"], "step_s": summary["step_s"], "startup_s": summary["startup_s"],
            "pss_mib": summary["peak_pss_bytes"] / 2**20, "exposed_comm_share": summary["exposed_comm_share"],
            **steady(samples, max(0.0, stepping - summary["step_s"]), summary["step_s"], ranks)}


def torch(case, tokens, steps):
    """Random tokens of its own; `tokens` is not read."""
    kind, ranks, threads, micro, _, _, environment, _ = case
    peer = ["bench/peers/gpt2_torch.py", "--mode", *kind.split(), "--micro-batch", micro, "--seq", SEQUENCE, "--steps", steps]
    start = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", ranks] if ranks > 1 else []
    text, samples, wall_s = watch([sys.executable, *start, *peer], {"OMP_NUM_THREADS": str(threads), **environment}, 900)
    result = common.last_json(text)
    step_s = result["step_s"]
    return {"tokens_per_s": result["tokens_per_s"], "step_s": step_s, "pss_mib": result["pss_mib"],
            "startup_s": wall_s - steps * step_s,  # with the shutdown, some seconds at times
            **steady(samples, (steps - 2) * step_s, step_s, ranks)}


def matrix_peak():
    """GFLOP/s of both cores at once."""
    both = [subprocess.Popen(["taskset", "-c", str(core), common.ROOT / "build/bench/matrix_peak", "1.5"], stdout=subprocess.PIPE, text=True)
            for core in sorted(os.sched_getaffinity(0))[:2]]
    return sum(float(p.communicate(timeout=60)[0]) for p in both)


def judged(name, figures):
    """The figures with `why_not`: why this round does not count, or null."""
    why = []
    if figures["foreign"] is None:
        why.append("too short to judge")
    else:
        if figures["foreign"] > FOREIGN_LIMIT:
            why.append(f"something else had {figures['foreign']:.0%} of the cores")
    return {**figures, "why_not": "; ".join(why) or None}


def one_round(cases, tokens, quick):
    result = {"peak_gflops": [matrix_peak()]}
    for name, case in cases.items():
        steps = case[5] if quick else case[4]
        result[name] = judged(name, (ours if case[0] == "ours" else torch)(case, tokens, steps))
        mark = result[name]["why_not"]
        print(f"  {name}: {result[name]['tokens_per_s']:.1f} tokens/s, {result[name]['pss_mib']:.0f} MiB"
              f"{'  NOT COUNTED: ' + mark if mark else ''}", file=sys.stderr, flush=True)
    result["peak_gflops"].append(matrix_peak())
    return result


def interleaved(cases, minutes, quick):
    """Rounds of all cases; at least one, and one alone with `quick`. None begins that would end after `minutes`."""
    rounds, began, longest = [], time.monotonic(), 0.0
    with tempfile.TemporaryDirectory() as folder:
        tokens = pathlib.Path(folder) / "zipf.tokens"
        write_tokens(tokens)
        while not rounds or (not quick and time.monotonic() - began + longest < 60 * minutes):
            start = time.monotonic()
            print(f"round {len(rounds) + 1}", file=sys.stderr, flush=True)
            rounds.append(one_round(cases, tokens, quick))
            longest = max(longest, time.monotonic() - start)
    return rounds


def arguments(cases, minutes):
    """The command line of a benchmark of such cases, with `cases`: those of them to run."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="one round of fewer steps, at most 4 minutes")
    parser.add_argument("--minutes", type=float, default=minutes, help="no round begins that would end later")
    parser.add_argument("--only", nargs="+", choices=cases, metavar="NAME", help=f"some of: {', '.join(cases)}")
    parser.add_argument("--out", type=pathlib.Path, default=common.ROOT / "runs/bench")
    a = parser.parse_args()
    a.cases = {name: case for name, case in cases.items() if name in (a.only or cases) and (case[5] or not a.quick)}
    return a


def write(folder, report, text):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{report['bench']}.json").write_text(json.dumps(report, indent=1) + "\n")
    (folder / f"{report['bench']}.md").write_text(text)
    print(text)


def median(rounds, name, key):
    """Over the rounds that count; None if there is none."""
    values = [r[name][key] for r in rounds if name in r and r[name]["why_not"] is None and r[name].get(key) is not None]
    return statistics.median(values) if values else None


def shown(value, form):
    return "-" if value is None else format(value, form)


def percent_of_peak(rounds, name):
    shares = [r[name]["tokens_per_s"] * FLOPS_PER_TOKEN / (1e9 * max(r["peak_gflops"])) for r in rounds if name in r and r[name]["why_not"] is None]
    return statistics.median(shares) if shares else None


def markdown(report):
    rounds = report["rounds"]
    names = [name for name in CASES if any(name in r for r in rounds)]
    peaks = ", ".join(f"{max(r['peak_gflops']):.0f}" for r in rounds)
    lines = ["# GPT-2 124M, fp32, sequence 256, beside PyTorch", "", f"{report['machine']}. {report['torch']}. "
             f"{len(rounds)} interleaved rounds, medians; matrix peak (sgemm 512x768x3072 on both cores at once, `matrix_peak`): "
             f"{peaks} GFLOP/s.", "",
             "| | rounds that count | tokens/s | of the peak | PSS per rank, MiB | page faults per step and rank | start-up, s |",
             "|---|---|---|---|---|---|---|"]
    for name in names:
        counted = sum(1 for r in rounds if name in r and r[name]["why_not"] is None)
        get = lambda key: median(rounds, name, key)
        lines.append(f"| {name} | {counted} of {sum(1 for r in rounds if name in r)} | {shown(get('tokens_per_s'), '.1f')} | "
                     f"{shown(percent_of_peak(rounds, name), '.1%')} | {shown(get('pss_mib'), '.0f')} | "
                     f"{shown(get('faults_per_step'), '.0f')} | {shown(get('startup_s'), '.2f')} |")
    lines += ["", "| ours over | ratio of medians | bar |", "|---|---|---|"]
    for title, value, bar in report["ratios"]:
        lines.append(f"| {title} | {shown(value, '.2f')} | {shown(bar, '.2f')} |")
    lines += ["", f"PSS per rank, ours over DDP with tuned malloc, mb 1: {shown(report['pss_ratio'], '.2f')} (bar 0.65). "
              f"Cost of communication by dry transfers, mb 1: {shown(report['comm_cost'], '.1%')} of a step (bar 3 %).", ""]
    for number, r in enumerate(rounds, 1):
        lines += [f"Round {number}, {name}: not counted, {r[name]['why_not']}." for name in names if name in r and r[name]["why_not"]]
    return "\n".join(lines) + "\n"


def ratio(rounds, above, below, key):
    a, b = median(rounds, above, key), median(rounds, below, key)
    return a / b if a is not None and b is not None else None


def summed_up(machine, rounds):
    dry = ratio(rounds, "ours dry, mb 1", "ours, mb 1", "step_s")
    return {"bench": "train_vs_torch", "machine": machine,
            "torch": "torch " + common.run([sys.executable, "-W", "ignore", "-c", "import torch; print(torch.__version__)"], 120)[0].strip(),
            "flops_per_token": FLOPS_PER_TOKEN, "ratios": [(title, ratio(rounds, a, b, "tokens_per_s"), bar) for title, a, b, bar in RATIOS],
            "pss_ratio": ratio(rounds, "ours, mb 1", "DDP tuned, mb 1", "pss_mib"), "comm_cost": None if dry is None else 1 - dry,
            "rounds": rounds}


def main():
    a = arguments(CASES, minutes=15)
    machine = common.machine() + f", {common.caches()}"
    report = summed_up(machine, interleaved(a.cases, a.minutes, a.quick))
    write(a.out, report, markdown(report))


if __name__ == "__main__":
    main()
