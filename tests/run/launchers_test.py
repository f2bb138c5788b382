"""Whole runs under other people's launchers: torchrun, mpirun and srun start the ranks, and the run is the one that
`tutti train -n 2` makes, bit for bit.

    TUTTI_PROGRAM=build/tutti python3 tests/run/launchers_test.py [-v] [TEST...]

A launcher that is not installed, or that cannot run here, is skipped by name.
"""
import subprocess
import sys
import time
import unittest

from run_case import LIMIT_S, ROOT, TUTTI, RunTest, clean_environment, free_port

sys.path.insert(0, str(ROOT / "tests/procs"))
from launchers import MPIRUN, MPIRUN_ENV, needs_mpirun, needs_slurm, start_slurm  # noqa: E402

TRAIN = [TUTTI, "train", "config.toml", "run.dir=joined"]


class UnderAnotherLauncher(RunTest):
    def is_the_run_of_tutti_train(self, *launcher, env):
        done = subprocess.run([*launcher, *TRAIN], cwd=self.folder, env=env, capture_output=True, text=True,
                              timeout=2 * LIMIT_S, stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.summary("joined")["ranks"], 2)
        self.assertEqual(self.summary("joined")["param_hash"], self.train("started", 2)["param_hash"])
        self.assertEqual(self.losses("joined"), self.losses("started"))
        return done.stderr

    def test_two_processes_with_torchruns_variables_are_one_run(self):
        port = str(free_port())
        ranks = []
        for rank in ("0", "1"):
            env = clean_environment() | {"RANK": rank, "WORLD_SIZE": "2", "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": "2",
                                         "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
            ranks.append(self.start("train", "config.toml", "run.dir=joined", env=env))
        for process, log in ranks:
            self.assertEqual(process.wait(LIMIT_S), 0, log.read_text())
        self.assertEqual(self.summary("joined")["param_hash"], self.train("started", 2)["param_hash"])
        self.assertEqual(self.losses("joined"), self.losses("started"))

    def test_ranks_with_different_configs_are_refused_and_the_key_is_named(self):
        other = self.folder / "other.toml"
        other.write_text((self.folder / "config.toml").read_text().replace("lr = 1e-3", "lr = 2e-3"))
        port = str(free_port())
        ranks = []
        for rank, config in (("1", other), ("0", "config.toml")):
            env = clean_environment() | {"RANK": rank, "WORLD_SIZE": "2", "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": "2",
                                         "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
            ranks.append(self.start("train", config, "run.dir=joined", env=env))
            time.sleep(1)  # rank 1 looks before rank 0 writes
        process, log = ranks[0]
        self.assertEqual(process.wait(LIMIT_S), 2, log.read_text())
        self.assertRegex(log.read_text(), r'config has "\[optim\] lr = 0.002", .* of rank 0 has "\[optim\] lr = 0.001"')

    def test_ranks_that_share_no_folder_compare_what_they_have_before_they_communicate(self):
        self.train("started", 2)
        config = (self.folder / "started/config.toml").read_text()
        port = str(free_port())
        ranks = []
        for rank, lr in (("0", "lr = 0.001 "), ("1", "lr = 0.002 ")):
            path = self.folder / f"config-{rank}.toml"
            path.write_text(config.replace("lr = 0.001 ", lr, 1).replace("threads = 1 ", f"threads = {int(rank) + 1} "))
            env = clean_environment() | {"RANK": rank, "WORLD_SIZE": "2", "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": "2",
                                         "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
            ranks.append(subprocess.Popen([TUTTI.parent / "libexec/tutti-torch", "train", path], cwd=self.folder, env=env,
                                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True))
        for process in ranks:
            said = process.communicate(timeout=LIMIT_S)[1]
            self.assertEqual(process.returncode, 2, said)
            self.assertIn('Rank 1 has "[optim] lr = 0.002", rank 0 has "[optim] lr = 0.001"', said)

    def test_torchrun_itself_starts_a_run(self):
        torchrun = ROOT / ".deps/venv/bin/torchrun"
        if not torchrun.exists():
            self.skipTest("no torchrun in .deps: an installed torch wheel is used")
        self.is_the_run_of_tutti_train(torchrun, "--nproc-per-node", "2", "--master-port", str(free_port()), "--no-python",
                                       env=clean_environment())

    @needs_mpirun
    def test_mpirun_itself_starts_a_run(self):
        said = self.is_the_run_of_tutti_train(*MPIRUN, "-n", "2", env=MPIRUN_ENV)
        self.assertIn("from mpirun", said)

    @needs_mpirun
    def test_a_rank_that_fails_ends_mpiruns_run_with_its_reason(self):
        done = subprocess.run([*MPIRUN, "-n", "2", *TRAIN, "optim.lr=1e30", "optim.clip=0", "optim.warmup_steps=0"],
                              cwd=self.folder, env=MPIRUN_ENV, capture_output=True, text=True, timeout=2 * LIMIT_S,
                              stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("not finite", done.stderr)

    @needs_slurm
    def test_srun_itself_starts_a_run(self):
        said = self.is_the_run_of_tutti_train("srun", "-n", "2", "--overcommit", env=start_slurm(self))
        self.assertIn("from srun", said)


if __name__ == "__main__":
    unittest.main()
