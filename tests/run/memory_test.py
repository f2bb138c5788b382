"""Runs on the pages they are given: shared or a copy per rank, huge or small. The start says which, the results are the same.

    TUTTI_PROGRAM=build/tutti python3 tests/run/memory_test.py [-v] [TEST...]
"""
import ctypes
import subprocess
import unittest

from run_case import LIMIT_S, TUTTI, RunTest, clean_environment

PR_SET_THP_DISABLE = 41  # no huge pages for this process and those it starts: a host that has none


def without_huge_pages():
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "PR_SET_THP_DISABLE")


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
