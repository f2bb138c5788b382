"""Runs each case of cases/ and compares status, stdout and stderr with the text that stands there.

A case is one file: the command line after "$ ", then "status N", then everything printed, stdout before stderr.
TUTTI_UPDATE_GOLDEN=1 rewrites the files.
"""
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile
import difflib

HERE = pathlib.Path(__file__).parent
PATIENCE = float(os.environ.get("TUTTI_PATIENCE", 1))  # with sanitized programs: tests/CMakeLists.txt


def run_case(tutti, command):
    words = shlex.split(command)
    assert words[0] == "tutti", command
    # No launcher's variables, no colours: the same text everywhere.
    env = {"PATH": os.environ["PATH"], "NO_COLOR": "1"}
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(HERE / "inputs", folder, dirs_exist_ok=True)
        done = subprocess.run([tutti, *words[1:]], cwd=folder, env=env, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=30 * PATIENCE)
    return f"$ {command}\nstatus {done.returncode}\n{done.stdout}{done.stderr}"


def main(tutti):
    update = os.environ.get("TUTTI_UPDATE_GOLDEN") == "1"
    cases = sorted((HERE / "cases").glob("*.txt"))
    if not cases:
        sys.exit("no golden cases found")
    wrong = 0
    for case in cases:
        expected = case.read_text()
        found = run_case(tutti, expected.splitlines()[0].removeprefix("$ "))
        if found == expected:
            continue
        if update:
            case.write_text(found)
            print(f"updated {case.name}")
            continue
        wrong += 1
        sys.stdout.writelines(difflib.unified_diff(
            expected.splitlines(True), found.splitlines(True), f"{case.name} expected", "found"))
    if wrong:
        sys.exit(f"{wrong} of {len(cases)} cases differ; TUTTI_UPDATE_GOLDEN=1 accepts what was found")
    print(f"{len(cases)} cases")


main(str(pathlib.Path(sys.argv[1]).resolve()))
