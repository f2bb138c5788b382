"""Ranks started by mpirun and srun themselves: `tutti train --dry-run` says what each has understood of its place.

A launcher that is not installed is skipped by name. Whole runs under them: tests/run/launchers_test.py.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from launchers import MPIRUN, MPIRUN_ENV, needs_mpirun, needs_slurm, start_slurm

TUTTI = str(pathlib.Path(sys.argv.pop(1)).resolve())
INPUTS = pathlib.Path(__file__).resolve().parent.parent / "golden/inputs"
DRY_RUN = [TUTTI, "train", "good.toml", "--dry-run", "--json"]
PATIENCE = float(os.environ.get("TUTTI_PATIENCE", 1))  # with sanitized programs: tests/CMakeLists.txt


def run_in_inputs(*command, env):
    return subprocess.run(command, cwd=INPUTS, env=env, capture_output=True, text=True, timeout=60 * PATIENCE, stdin=subprocess.DEVNULL)


@needs_mpirun
class Mpirun(unittest.TestCase):
    def test_its_processes_are_the_ranks(self):
        done = run_in_inputs(*MPIRUN, "--tag-output", "-n", "2", *DRY_RUN, env=MPIRUN_ENV)
        self.assertEqual(done.returncode, 0, done.stderr)
        for rank in range(2):  # lines of two ranks come mixed: each begins with its own mark
            mine = [line.split(":", 1)[1] for line in done.stdout.splitlines() if line.startswith(f"[1,{rank}]<stdout>:")]
            self.assertEqual(json.loads("\n".join(mine))["ranks"], 2)

    def test_their_number_stands_against_n(self):
        done = run_in_inputs(*MPIRUN, "-n", "2", *DRY_RUN, "-n", "3", env=MPIRUN_ENV)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("-n 3 contradicts", done.stderr)


@needs_slurm
class Srun(unittest.TestCase):
    def setUp(self):
        self.env = start_slurm(self)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = pathlib.Path(folder.name)

    def test_its_tasks_are_the_ranks_and_a_batch_script_is_none(self):
        tasks = min(2, os.cpu_count())
        one = run_in_inputs("srun", "-n", str(tasks), "--label", *DRY_RUN, env=self.env)
        self.assertEqual(one.returncode, 0, one.stderr)
        for rank in range(tasks):
            mine = [line.split(":", 1)[1] for line in one.stdout.splitlines() if line.startswith(f"{rank}:")]
            self.assertEqual(json.loads("\n".join(mine))["ranks"], tasks)

        script = self.dir / "job"
        script.write_text("#!/bin/sh\nexec " + " ".join(DRY_RUN) + " -n 1\n")
        done = run_in_inputs("sbatch", "-W", "-n", str(tasks), "-o", str(self.dir / "out"), str(script), env=self.env)
        self.assertEqual(done.returncode, 0, done.stderr + (self.dir / "out").read_text())
        self.assertEqual(json.loads((self.dir / "out").read_text())["ranks"], 1)


unittest.main()
