"""`tutti schedule` as a user and a script meet it: documents, exit statuses, sentences.

    python3 tests/schedule_command_test.py build/tutti [-v]
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[1]
TUTTI = sys.argv.pop(1)
PATIENCE = float(os.environ.get("TUTTI_PATIENCE", 1))  # with sanitized programs: tests/CMakeLists.txt


def run(*words):
    return subprocess.run([TUTTI, "schedule", *words], capture_output=True, text=True, timeout=60 * PATIENCE)


class Schedule(unittest.TestCase):
    def document(self, *words):
        done = run(*words, "--json")
        self.assertEqual(0, done.returncode, done.stderr)
        return json.loads(done.stdout)

    def refused(self, *words):
        done = run(*words)
        self.assertEqual(2, done.returncode, done.stdout)
        self.assertEqual("", done.stdout)
        return done.stderr

    def test_the_document_has_the_keys_and_values_of_the_interface(self):
        self.assertEqual(
            {"schedule": "1f1b", "stages": 2, "microbatches": 4, "chunks": 1, "bubble": 0.2, "bubble_global": 0.2,
             "makespan": 15.0, "peak_activations": [2, 1], "slots": {"0>1": 2, "1>0": 3}, "deadlock_free": True},
            self.document("1f1b", "--stages", "2", "--microbatches", "4"))

    def test_times_of_uneven_stages_are_used(self):
        even = self.document("zb-auto", "--stages", "2", "--microbatches", "6", "--times", "1,1,1,0.5")
        uneven = self.document("zb-auto", "--stages", "2", "--microbatches", "6", "--times", "1,1,1;2,2,2,0.5")
        self.assertGreater(uneven["makespan"], even["makespan"])
        self.assertGreaterEqual(uneven["makespan"], 6 * 6)

    def test_the_words_show_the_timeline_and_what_the_rule_is_worth(self):
        text = run("1f1b", "--stages", "4", "--microbatches", "8").stdout
        self.assertIn("stage 3 |.........F0 B0    F1 B1", text)
        self.assertIn("bubble     27.27 % by stage span", text)
        self.assertIn("is false for plain 1f1b (27 % at m = 8, 16 % at m = 16) and true for interleaved x4", text)

    def test_the_committed_picture_is_what_the_command_makes(self):
        with tempfile.TemporaryDirectory() as folder:
            picture = pathlib.Path(folder, "bubble.svg")
            run("1f1b", "--stages", "4", "--microbatches", "8", "--beside", "interleaved:4", "--beside", "zb-v",
                "--svg", str(picture))
            self.assertEqual((ROOT / "docs/images/bubble.svg").read_text(), picture.read_text())

    def test_rows_of_the_published_table_are_answered_in_one_document(self):
        rows = self.document("--rows", str(ROOT / "tests/published/schedules.csv"))["rows"]
        self.assertEqual(507, len(rows))
        self.assertEqual(["id", "bubble_predicted", "bubble_global_predicted", "peak_predicted"], list(rows[0]))

    def test_a_refused_order_names_its_lines_and_exits_2(self):
        with tempfile.TemporaryDirectory() as folder:
            order = pathlib.Path(folder, "order.csv")
            order.write_text("stage,action,microbatch\n0,F,0\n0,B,0\n0,F,1\n0,B,1\n1,F,0\n1,F,1\n1,B,0\n1,B,1\n")
            self.assertIn("line 3 (RB0 of stage 0) waits for line 8 (SB0 of stage 1)", self.refused("--file", str(order)))
            done = run("--file", str(order), "--json")
            self.assertEqual(2, done.returncode)
            document = json.loads(done.stdout)
            self.assertFalse(document["deadlock_free"])
            self.assertIsNone(document["bubble"])
            order.write_text("stage,action,microbatch\n0,F,0\n1,F,0\n1,B,0\n0,B,0\n")
            self.assertTrue(self.document("--file", str(order))["deadlock_free"])

    def test_what_does_not_fit_is_refused_with_a_cure(self):
        shape = ("--stages", "4", "--microbatches", "8")
        self.assertIn("did you mean 1f1b", self.refused("1f1c", *shape))
        self.assertIn("needs --microbatches", self.refused("1f1b", "--stages", "4"))
        self.assertIn("Set chunks to 2", self.refused("zb-v", *shape, "--chunks", "3"))
        self.assertIn("The smallest that works is 4", self.refused("1f1b", *shape, "--memory", "3"))
        self.assertIn("The smallest that works is 1", self.refused("zb-auto", *shape, "--memory", "0.5"))
        self.assertIn("'-1' is not a time", self.refused("1f1b", *shape, "--times", "1,-1,1"))
        self.assertIn("has 2 numbers", self.refused("1f1b", *shape, "--times", "1,1"))
        self.assertIn("2 groups for 4 stages", self.refused("1f1b", *shape, "--times", "1,1,1;1,1,1"))
        self.assertIn("3 slots on every edge let it finish", self.refused("1f1b", *shape, "--slots", "2"))
        self.assertIn("wants one of NAME", self.refused())
        self.assertIn("did you mean all-reduce", self.refused("allreduce", *shape))
        self.assertIn("needs --ranks", self.refused("all-reduce"))
        self.assertIn("--slots = 0", self.refused("1f1b", *shape, "--slots", "0"))
        self.assertIn("--elements = -5", self.refused("all-reduce", "--ranks", "4", "--elements", "-5"))

    def test_options_that_nobody_would_read_are_refused(self):
        shape = ("--stages", "4", "--microbatches", "8")
        self.assertIn("--ranks has no meaning here", self.refused("1f1b", *shape, "--ranks", "4"))
        self.assertIn("--memory has no meaning here", self.refused("all-reduce", "--ranks", "4", "--memory", "4"))
        self.assertIn("--beside has no meaning here", self.refused("1f1b", *shape, "--beside", "zb-v"))
        self.assertIn("--kept has no meaning here", self.refused("zb-h1", *shape, "--kept", "1"))
        self.assertIn("--times has no meaning here", self.refused("--rows", "rows.csv", "--times", "1,1,1"))

    def test_kept_tells_the_search_how_activations_are_counted(self):
        words = ("zb-auto", "--stages", "8", "--microbatches", "32", "--memory", "16", "--times", "18.513,18.086,9.331,0.626")
        published, strict = self.document(*words), self.document(*words, "--kept", "1")
        self.assertLessEqual(published["bubble"], 0.0039 + 0.0005)
        self.assertGreater(strict["bubble"], published["bubble"])
        self.assertIn("from 0 to 1", self.refused(*words, "--kept", "1.5"))

    def test_absurd_sizes_are_refused_at_once(self):
        huge = "1000000000"
        for words in (("1f1b", "--stages", huge, "--microbatches", "8"),
                      ("1f1b", "--stages", "4", "--microbatches", huge),
                      ("interleaved", "--stages", "4", "--microbatches", "8", "--chunks", huge)):
            self.assertIn("more actions than can be drawn up", self.refused(*words))
        for words in (("all-reduce", "--algorithm", "ring"), ("all-reduce", "--algorithm", "direct"), ("all-to-all",)):
            self.assertIn("too many to prove", self.refused(*words, "--ranks", huge))
        self.assertIn("use 1 to 4096", self.refused("all-reduce", "--algorithm", "chain", "--ranks", "4", "--chunks", huge))
        self.assertIn("not compared", run("1f1b", "--stages", "1", "--microbatches", "200000").stdout)

    def test_a_collective_with_uneven_counts_is_priced_by_its_own_shares(self):
        words = ("all-gather", "--algorithm", "direct", "--ranks", "3", "--counts", "1,0,5")
        document = self.document(*words)
        self.assertEqual((6, 10.0), (document["elements"], document["moved_elements"]))

    def test_micro_batches_that_do_not_divide_work_and_say_their_bubble(self):
        self.assertGreater(self.document("interleaved", "--stages", "4", "--microbatches", "7", "--chunks", "3")["bubble"], 0.05)


if __name__ == "__main__":
    unittest.main()
