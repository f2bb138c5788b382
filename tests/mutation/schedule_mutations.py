#!/usr/bin/env python3
"""Changes one token of a schedule generator at a time and demands that schedule_test notices.

    tests/mutation/schedule_mutations.py [--build build] [--list tests/mutation/collective_mutations.txt] [--jobs 2]

A list has one mutation per line: file in src/schedule | original text | mutated text; the first occurrence is changed;
"\\n" is a line break and "\\|" a bar. The file is always restored. Exit status 1 if a mutation survives or does not apply.
"""
import argparse
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def read_mutations(path):
    for line in path.read_text().splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        parts = re.split(r" (?<!\\)\| ", line)
        yield [part.replace("\\n", "\n").replace("\\|", "|") for part in parts]


def verdict(build, jobs):
    """'survived', or how it was noticed."""
    made = subprocess.run(["ninja", "-C", build, f"-j{jobs}", "schedule_test"], capture_output=True)
    if made.returncode != 0:
        return "does not compile"
    try:
        test = subprocess.run([build / "src" / "schedule_test", "--gtest_brief=1", "--gtest_fail_fast"],
                              capture_output=True, timeout=120)
    except subprocess.TimeoutExpired:
        return "killed (hangs)"
    return "survived" if test.returncode == 0 else "killed"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build", help="build folder")
    parser.add_argument("--list", action="append", help="mutation list; default: all beside this script")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    build = (ROOT / options.build).resolve()
    lists = options.list or sorted(pathlib.Path(__file__).parent.glob("*_mutations.txt"))
    counts = {}
    bad = 0
    for path in lists:
        for name, original, mutated in read_mutations(pathlib.Path(path)):
            file = ROOT / "src" / "schedule" / name
            source = file.read_text()
            if original not in source:
                result = "does not apply"
            else:
                try:
                    file.write_text(source.replace(original, mutated, 1))
                    result = verdict(build, options.jobs)
                finally:
                    file.write_text(source)
            counts[result] = counts.get(result, 0) + 1
            if not result.startswith("killed"):
                bad += 1
            print(f"{result:18} {name}: {original!r} -> {mutated!r}", flush=True)
    subprocess.run(["ninja", "-C", build, f"-j{options.jobs}", "schedule_test"], capture_output=True, check=True)
    print(", ".join(f"{count} {result}" for result, count in sorted(counts.items())))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
