"""What the benchmark scripts share: running ours and the peers, and printing what came out."""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
TUTTI = pathlib.Path(os.environ.get("TUTTI_PROGRAM", ROOT / "build/tutti")).resolve()  # another build, to compare
CONFIG = "examples/shakespeare.toml"
TUNED_MALLOC = {"MALLOC_MMAP_THRESHOLD_": "4294967296", "MALLOC_TRIM_THRESHOLD_": "17179869184", "MALLOC_TOP_PAD_": "268435456"}


def run(command, timeout_s, **environment):
    """Runs to the end, from the project's folder; returns (stdout, wall seconds). A failure ends the benchmark with its last lines."""
    start = time.perf_counter()
    done = subprocess.run([str(c) for c in command], cwd=ROOT, env={**os.environ, **environment}, timeout=timeout_s,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wall_s = time.perf_counter() - start
    if done.returncode != 0:
        sys.exit(f"exit status {done.returncode}: {' '.join(map(str, command))}\n{done.stderr[-2000:]}")
    return done.stdout, wall_s


def last_json(text):
    return json.loads([line for line in text.splitlines() if line.startswith("{")][-1])


def tutti_train(overrides, ranks=2, timeout_s=1200):
    """One run of ours in a folder of its own; its summary.json, with wall_s of the whole process added."""
    with tempfile.TemporaryDirectory() as folder:
        run_dir = pathlib.Path(folder) / "run"
        _, wall_s = run([TUTTI, "train", CONFIG, *overrides, f"run.dir={run_dir}", "-n", ranks], timeout_s)
        return {**json.loads((run_dir / "summary.json").read_text()), "wall_s": round(wall_s, 2)}


def machine():
    """Processor, cores and load: a figure without them says nothing."""
    model = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "unknown processor")
    return f"{model}, {len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.1f} at the start"


def caches():
    """Sizes of core 0's caches from level 2 on, as the kernel tells them."""
    found = []
    for index in sorted(pathlib.Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        level = (index / "level").read_text().strip()
        if level != "1":
            found.append(f"L{level} {(index / 'size').read_text().strip()}")
    return ", ".join(found) or "caches unknown"


def table(title, head, rows):
    """A Markdown table on stdout."""
    print(f"\n### {title}\n\n| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in row) + " |")
    sys.stdout.flush()


def median_ratio(ours, theirs):
    """Median over the rounds of ours / theirs: both of a round met the same load."""
    return statistics.median(a / b for a, b in zip(ours, theirs))
