"""Whole runs whose model lies in parts on several ranks: the same model as on one, whatever the vocabulary, and checkpoints
that any other layout reads.

    TUTTI_PROGRAM=build/tutti python3 tests/run/tensor_parallel_test.py [-v] [TEST...]
"""
import json
import os
import signal
import unittest

from run_case import LIMIT_S, ROOT, RunTest, ranks_of

STILL = ("optim.lr=0", "optim.min_lr=0", "optim.schedule=constant", "optim.weight_decay=0", "run.steps=1")
TP = "parallel.tp="


class TensorParallel(RunTest):
    def test_initial_parameters_do_not_depend_on_the_layout(self):
        layouts = (["parallel.dp=1"], [TP + "2"], [TP + "4"], [TP + "2", "parallel.dp=2"], [TP + "2", "parallel.dp=2", "parallel.zero=3"])
        hashes = {self.train_with(f"run-{i}", layout, *STILL)["param_hash"] for i, layout in enumerate(layouts)}
        self.assertEqual(len(hashes), 1, hashes)

    def train_with(self, run, layout, *more):
        """Trains with as many ranks as the layout needs."""
        self.done("train", "config.toml", f"run.dir={run}", *layout, *more)
        return self.summary(run)

    def evaluated(self, run, *layout):
        """What `--eval-only` says of the newest checkpoint, read by this layout."""
        return json.loads(self.done("train", "config.toml", f"run.dir={run}", "--resume", "latest", "--eval-only", "--json",
                                    *layout))

    def test_odd_vocabularies_and_rows_train_as_on_one_rank(self):
        # 50,257 words and 1 x 31 tokens: neither is a multiple of 2, 3 or 4, so the ranks get unequal parts.
        self.done("data", "prepare", ROOT / "LICENSE", "--tokenizer", "gpt2", "-o", "words.tokens")
        odd = ("data.train=words.tokens", "model.vocab=50257", "model.heads=12", "model.hidden=48", "model.context=31",
               "data.sequence=31", "model.dropout=0.1", "run.checkpoint_every=0", "run.steps=4")
        self.train("one", 1, *odd)
        for tp in (2, 3, 4):
            for sequence in ("true", "false"):
                with self.subTest(tp=tp, sequence=sequence):
                    run = f"tp-{tp}-{sequence}"
                    self.train_with(run, [TP + str(tp), f"parallel.sequence={sequence}"], *odd)
                    self.assert_close(self.losses(run), self.losses("one"), 1e-5)
                    self.assertAlmostEqual(self.summary(run)["valid_loss"], self.summary("one")["valid_loss"], 4)

    def test_attention_dropout_falls_on_the_same_weights(self):
        dropout = ("model.attention_dropout=0.2", "run.checkpoint_every=0")
        self.train("one", 1, *dropout)
        self.train_with("two", [TP + "2"], *dropout)
        self.assert_close(self.losses("two"), self.losses("one"), 1e-5)

    def test_grouped_queries_stay_with_their_keys(self):
        for heads, groups in ((4, 2), (8, 4), (4, 1)):
            grouped = (f"model.heads={heads}", f"model.kv_heads={groups}", "model.hidden=64", "model.attention_dropout=0.1")
            self.train(f"one-{groups}", 1, *grouped)
            for layout in ([TP + "2"], [TP + "2", "parallel.dp=2", "parallel.zero=3"], [TP + "4"]):
                if groups % int(layout[0].removeprefix(TP)):
                    self.refused(2, [f"does not divide [model] kv_heads = {groups}"], "train", "config.toml", "-n",
                                 2 if layout == [TP + "2"] else 4, "run.dir=no", *layout, *grouped)
                    continue
                with self.subTest(heads=heads, groups=groups, layout=layout):
                    self.train_with(f"parts-{groups}", [*layout, "--force"], *grouped)
                    self.assert_close(self.losses(f"parts-{groups}"), self.losses(f"one-{groups}"), 1e-5)
                    self.assertEqual(self.evaluated(f"parts-{groups}", TP + "1", "parallel.dp=1", *grouped)["param_hash"],
                                     self.summary(f"parts-{groups}")["param_hash"])
        self.assertTrue(self.done("sample", "parts-4", "--tokens", 9, "--prompt", "a").startswith("a"))

    def test_a_checkpoint_is_read_by_every_layout(self):
        wrote = self.train_with("run", [TP + "2", "parallel.dp=2", "parallel.zero=1"])
        for layout in ([TP + "1", "parallel.dp=1"], [TP + "1", "parallel.dp=3", "parallel.zero=0"], [TP + "4"],
                       [TP + "2", "parallel.dp=3", "parallel.zero=3", "parallel.share_pages=false"]):
            with self.subTest(layout=layout):
                found = self.evaluated("run", *layout)
                self.assertEqual(found["param_hash"], wrote["param_hash"])
                self.assertAlmostEqual(found["valid_loss"], wrote["valid_loss"], 5)
        self.done("checkpoint", "verify", "run")
        text = self.done("sample", "run", "--prompt", "the", "--tokens", 8, "--temperature", 0)
        self.assertTrue(text.startswith("the"))

    def test_a_run_goes_on_with_other_parts(self):
        steps = ("optim.schedule=constant", "run.checkpoint_every=10")
        self.train("whole", 1, "run.steps=40", *steps)
        self.train_with("parts", [TP + "2"], "run.steps=10", *steps)
        self.train_with("parts", [TP + "1", "parallel.dp=3"], "run.steps=20", "--resume", "latest", *steps)
        self.train_with("parts", [TP + "4"], "run.steps=30", "--resume", "latest", *steps)
        self.train_with("parts", [TP + "2", "parallel.dp=2", "parallel.zero=3"], "run.steps=40", "--resume", "latest", *steps)
        self.assert_close(self.losses("parts"), self.losses("whole"), 1e-5)

    def test_the_same_run_has_the_same_bits(self):
        layout = [TP + "2", "parallel.dp=2"]
        first = self.train_with("first", layout, "model.dropout=0.1")
        self.assertEqual(self.train_with("second", layout, "model.dropout=0.1")["param_hash"], first["param_hash"])
        self.assertEqual(self.losses("second"), self.losses("first"))

    def test_bytes_sent_are_those_of_the_formula(self):
        # 4 all-reduces a layer and one at either end, each 2 x 1/2 of 32 rows x 32 columns of 4 bytes, 12 micro-batches.
        summary = self.train_with("run", [TP + "2"])
        self.assertEqual(summary["mesh"]["tp"], 2)
        self.assertEqual(summary["tp_sent_bytes"], (4 * 2 + 2) * 32 * 32 * 4 * 12)
        summary = self.train_with("again", [TP + "2", 'parallel.recompute="full"'])
        self.assertEqual(summary["tp_sent_bytes"], (6 * 2 + 2) * 32 * 32 * 4 * 12)

    def test_what_cannot_be_cut_is_refused_with_the_nearest_choices(self):
        self.refused(2, ["tp = 3 does not divide [model] heads = 4", "one of 1, 2, 4"], "train", "config.toml", "-n", 3,
                     TP + "3")
        self.refused(2, ["3 ranks cannot be dealt out", "2 or 4 ranks"], "train", "config.toml", "-n", 3, TP + "2")

    def test_a_gradient_that_is_not_finite_is_named_by_every_rank_alike(self):
        for layout in ([TP + "2", "parallel.dp=2"], [TP + "1", "parallel.dp=4", "parallel.zero_shard=2"]):
            said = self.refused(1, ["is not finite", "The update was not made"], "train", "config.toml", *layout,
                                "optim.lr=1e30", "optim.clip=0", "optim.warmup_steps=0", "--force")
            self.assertIn("Step ", said)

    def test_a_rank_that_is_killed_ends_the_run(self):
        process, log = self.start("train", "config.toml", TP + "2", "parallel.dp=2", "run.steps=100000")
        self.until("step 2", lambda: process.poll() is not None or self.steps_done("run") >= 2)
        os.kill(ranks_of(process.pid)[3], signal.SIGKILL)
        self.assertEqual(process.wait(LIMIT_S), 1, log.read_text())
        self.assertIn("rank 3", log.read_text())


if __name__ == "__main__":
    unittest.main()
