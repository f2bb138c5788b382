"""Runs on the pages they are given: shared or a copy per rank, huge or small. The start says which, the results are the same.

    TUTTI_PROGRAM=build/tutti python3 tests/run/memory_test.py [-v] [TEST...]
"""
import ctypes
import os
import subprocess
import unittest

from run_case import LIMIT_S, TUTTI, RunTest, clean_environment

PR_SET_THP_DISABLE = 41  # no huge pages for this process and those it starts: a host that has none


def without_huge_pages():
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "PR_SET_THP_DISABLE")


# 302 million parameters in narrow layers: training state (16 bytes a parameter, 4.8 GB) is 1.8 times what a rank may have.
STATE_BYTES = 16 * 302_793_728
LIMIT_MIB = int(STATE_BYTES / 1.8) >> 20
WALL = ("model.layers=96", "model.hidden=512", "model.heads=8", "model.context=64", "data.sequence=64", "batch.micro=1",
        "batch.global=2", 'parallel.recompute="full"', "run.steps=2", "run.checkpoint_every=0",
        f"run.memory_limit={LIMIT_MIB}M")


class TheWall(RunTest):
    def test_one_rank_is_refused_with_the_numbers_and_what_would_fit(self):
        self.refused(2, ["it does not fit", "needs 4.7 GiB of the 2.5 GiB that [run] memory_limit gives it", "optimizer 2.3 GiB",
                         "[parallel] tp = 2", "[parallel] dp = 2 with zero = 3"], "train", "config.toml", "-n", 1, *WALL)
        self.assertFalse((self.folder / "run").exists())

    @unittest.skipUnless(os.environ.get("TUTTI_WALL"), "long: 5 GB, a minute")
    def test_two_ranks_train_it_within_the_limit(self):
        losses = []
        for layout in (["parallel.tp=2"], ["parallel.dp=2", "parallel.zero=3"],
                       ["parallel.dp=2", "parallel.zero=3", "parallel.share_pages=false"]):
            with self.subTest(layout=layout):
                summary = self.train("run", 2, "--force", *WALL, *layout)
                self.assertLess(summary["peak_pss_bytes"], LIMIT_MIB << 20)
                losses.append(self.losses("run"))
        self.assertEqual(losses[1], losses[2], "shared or private: the same bits")
        self.assert_close(losses[0], losses[1], 1e-5)


class Pages(RunTest):
    def on_a_host_without_huge_pages(self, *arguments):
        return subprocess.run([TUTTI, *map(str, arguments)], cwd=self.folder, env=clean_environment(), text=True,
                              capture_output=True, timeout=LIMIT_S, preexec_fn=without_huge_pages)

    def said_by(self, *more):
        process = self.command("train", "config.toml", "-n", 2, "--force", *more)
        self.assertEqual(process.returncode, 0, process.stderr)
        return process.stderr

    def test_the_start_says_whether_the_parameters_are_shared(self):
        self.assertIn("parameters: one copy in pages shared by all ranks", self.said_by())
        for more in ("parallel.share_pages=false", "parallel.zero=0", "comm.dry=true"):
            with self.subTest(more):
                self.assertIn("parameters: a copy per rank", self.said_by(more))
        alone = self.command("train", "config.toml", "-n", 1, "--force")
        self.assertNotIn("a copy per rank", alone.stderr, "there is nobody to share with")

    def test_small_pages_give_the_same_run_and_the_start_says_so(self):
        huge = self.train("huge", 2)
        done = self.on_a_host_without_huge_pages("train", "config.toml", "-n", 2, "run.dir=small")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, r"shared memory: 0 of \d+ bytes on huge pages, the rest on small ones")
        off = self.train("off", 2, "run.huge_pages=off")
        for run in ("small", "off"):
            self.assertEqual(self.summary(run)["param_hash"], huge["param_hash"])
            self.assertEqual(self.losses(run), self.losses("huge"))
        self.assertEqual(off["param_hash"], huge["param_hash"])

    def test_fewer_huge_pages_than_required_end_the_run_before_its_first_step(self):
        done = self.on_a_host_without_huge_pages("train", "config.toml", "-n", 2, "run.huge_pages=require")
        self.assertEqual(done.returncode, 1, done.stderr)
        for words in ('huge_pages = "require"', "only 0 lie on huge pages", 'set huge_pages = "auto"'):
            self.assertIn(words, done.stderr)
        self.assertEqual(self.steps_done("run"), 0)

    def test_required_huge_pages_are_taken_where_the_host_has_them(self):
        done = self.command("train", "config.toml", "-n", 2, "run.huge_pages=require")
        if done.returncode == 1 and "lie on huge pages" in done.stderr:
            self.skipTest("this host gives no huge pages to shared memory")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.summary("run")["param_hash"], self.train("auto", 2)["param_hash"])


if __name__ == "__main__":
    unittest.main()
