"""Prints our all-reduce against memcpy, beside Open MPI and Gloo: two ranks, fp32, whole range of sizes.

    .deps/venv/bin/python bench/collectives.py

Ours is `tutti bench collectives` (verified before it is timed); a release without that command says so, and the peers'
figures stand alone.
"""
import json
import subprocess
import sys
import tempfile

import common


def ours():
    """{bytes: row}, or the reason why there are none."""
    command = [common.TUTTI, "bench", "collectives", "--op", "all_reduce", "--sizes", "8:64M", "-n", "2", "--json"]
    done = subprocess.run(command, cwd=common.ROOT, capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        return done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"exit status {done.returncode}"
    return {row["bytes"]: row for row in json.loads(done.stdout)["rows"]}


def peer(command, timeout_s=600, **environment):
    text, _ = common.run(command, timeout_s, **environment)
    rows = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    return {row["bytes"]: row["time_us_p50"] for row in rows if row["op"] == "all_reduce" and row["wrong"] == 0}


def main():
    machine = common.machine()
    own = ours()
    gloo = peer([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", 2, "bench/peers/collectives_gloo.py"],
                OMP_NUM_THREADS="1")
    with tempfile.TemporaryDirectory() as folder:
        common.run(["mpicc", "-O2", "bench/peers/collectives_mpi.c", "-o", f"{folder}/mpi"], 120)
        mpi = peer(["mpirun", "-n", 2, "--allow-run-as-root", "--oversubscribe", f"{folder}/mpi"])
    if isinstance(own, str):
        print(f"tutti bench collectives: {own}")
        own = {}
    common.table("All-reduce, two ranks, fp32, median microseconds", ["bytes", "tutti", "memcpy", "tutti / memcpy", "Open MPI", "Gloo"],
                 [[size, *(own.get(size, {}).get(key, "-") for key in ("time_us_p50", "memcpy_us", "memcpy_ratio")), mpi.get(size, "-"), gloo[size]]
                  for size in sorted(gloo)])
    print(json.dumps({"bench": "collectives", "machine": machine, "tutti": list(own.values()), "openmpi": mpi, "gloo": gloo}))


if __name__ == "__main__":
    main()
