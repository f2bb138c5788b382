"""Whole runs in bf16: parameters and activations in 16 bits, masters, gradients and optimizer in fp32.

    TUTTI_PROGRAM=build/tutti python3 tests/run/precision_test.py [-v] [TEST...]
"""
import json
import unittest

from run_case import RunTest

BF16 = "run.precision=bf16"
# One micro-batch a step: with more, ZeRO 2 and 3 add over the ranks first.
ONE = ("batch.micro=3", "batch.global=6")


class InBf16(RunTest):
    def test_every_sharing_of_parameters_trains_the_same_bits(self):
        hashes = {}
        for zero in range(4):
            for shared in ("true", "false"):
                run = f"zero{zero}-{shared}"
                hashes[run] = self.train(run, 2, BF16, f"parallel.zero={zero}", f"parallel.share_pages={shared}",
                                         *ONE)["param_hash"]
        self.assertEqual(1, len(set(hashes.values())), hashes)
        self.assertNotEqual(hashes["zero1-true"], self.train("fp32", 2, *ONE)["param_hash"])

    def test_what_is_made_again_or_overlapped_has_the_same_bits(self):
        usual = self.train("usual", 2, BF16)["param_hash"]
        for name, more in (("again", "parallel.recompute=full"), ("cheap", "parallel.recompute=selective"),
                           ("late", "parallel.overlap=false")):
            with self.subTest(name):
                self.assertEqual(usual, self.train(name, 2, BF16, more)["param_hash"])

    def test_a_stop_half_way_changes_nothing(self):
        for name, more in (("plain", []), ("dropout", ["model.dropout=0.1", "model.attention_dropout=0.1"]),
                           ("parts", ["parallel.zero=3", "parallel.share_pages=false"])):
            with self.subTest(name):
                more = [BF16, "optim.schedule=constant", *more]
                whole = self.train(f"{name}-whole", 2, "run.steps=20", *more)
                self.train(f"{name}-halves", 2, "run.steps=10", *more)
                halves = self.train(f"{name}-halves", 2, "run.steps=20", "--resume", "latest", *more)
                self.assertEqual(self.losses(f"{name}-halves"), self.losses(f"{name}-whole"))
                self.assertEqual(halves["param_hash"], whole["param_hash"])

    def test_losses_of_50_steps_are_those_of_fp32_within_its_noise(self):
        more = ("run.steps=50", "optim.schedule=constant")
        self.train("fp32", 2, *more)
        for name, layout in (("dp", ["-n", "2"]), ("tp", ["-n", "2", "parallel.tp=2"]),
                             ("zero", ["-n", "4", "parallel.tp=2", "parallel.zero=3", "parallel.share_pages=false"])):
            with self.subTest(name):
                self.done("train", "config.toml", *layout, f"run.dir={name}", BF16, *more)
                self.assert_close(self.losses(name), self.losses("fp32"), 5e-3)
                self.assertNotEqual(self.losses(name), self.losses("fp32"))

    def test_checkpoints_hold_the_masters_which_any_precision_reads(self):
        wrote = self.train("run", 2, BF16, "parallel.zero=0")
        index = json.loads((self.checkpoints("run")[-1] / "index.json").read_text())
        self.assertEqual({"F32"}, {tensor["dtype"] for tensor in index["tensors"]})
        for precision in ("fp32", "bf16"):
            found = json.loads(self.done("train", "config.toml", "-n", 3, "run.dir=run", f"run.precision={precision}",
                                         "--resume", "latest", "--eval-only", "--json"))
            self.assertEqual(found["param_hash"], wrote["param_hash"])
            self.assertAlmostEqual(found["valid_loss"], wrote["valid_loss"], 2)
        self.assertTrue(self.done("sample", "run", "--tokens", 19, "--prompt", "a").startswith("a"))

    def test_tied_and_untied_heads_in_unequal_parts(self):
        odd = ("model.heads=3", "model.hidden=48")  # and 256 words on three ranks
        for tied in ("true", "false"):
            with self.subTest(tied=tied):
                self.train(f"one-{tied}", 1, f"model.tied={tied}", *odd)
                self.train(f"parts-{tied}", 3, "parallel.tp=3", f"model.tied={tied}", BF16, *odd)
                self.assert_close(self.losses(f"parts-{tied}"), self.losses(f"one-{tied}"), 5e-3)

    def test_a_gradient_that_is_not_finite_stops_the_run(self):
        self.refused(1, ["step", "not finite"], "train", "config.toml", "-n", 2, BF16, "optim.lr=1e30", "optim.min_lr=1e30",
                     "optim.clip=0", "optim.schedule=constant", "run.dir=nan")


class Auto(RunTest):
    def plan(self, run):
        return json.loads((self.folder / run / "plan.json").read_text())

    def log(self, run):
        return (self.folder / run / "log" / "rank-0.txt").read_text()

    def test_measures_once_and_keeps_its_choice(self):
        self.train("run", 2, "run.precision=auto", "optim.schedule=constant")
        precision = self.plan("run")["precision"]
        speed = precision["measured_flops"]
        self.assertGreater(min(speed.values()), 1e8)
        self.assertEqual("bf16" if speed["bf16"] >= 1.1 * speed["fp32"] else "fp32", precision["type"])
        self.assertIn(f"precision: {precision['type']}", self.log("run"))
        self.train("run", 2, "run.precision=auto", "optim.schedule=constant", "run.steps=12", "--resume", "latest")
        self.assertEqual(precision, self.plan("run")["precision"])

    def test_obeys_an_edited_plan_also_on_another_layout(self):
        self.train("run", 2, "run.precision=auto", "optim.schedule=constant")
        plan = self.plan("run")
        plan["precision"] = {"type": "bf16"}
        (self.folder / "run/plan.json").write_text(json.dumps(plan))
        self.train("run", 3, "run.precision=auto", "optim.schedule=constant", "run.steps=12", "--resume", "latest")
        self.assertEqual({"type": "bf16"}, self.plan("run")["precision"])
        self.assertIn("precision: bf16 with fp32 masters", self.log("run"))
        plan["precision"] = {"type": "fp8"}
        (self.folder / "run/plan.json").write_text(json.dumps(plan))
        self.refused(2, ['"fp8"', "fp32, bf16 or fp64"], "train", "config.toml", "-n", 3, "run.dir=run",
                     "run.precision=auto", "run.steps=14", "--resume", "latest")


if __name__ == "__main__":
    unittest.main()
