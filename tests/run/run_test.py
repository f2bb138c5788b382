"""Runs `tutti train` as a user would, and checks what a run promises: the same bits again, after a stop, on other layouts.

    TUTTI_PROGRAM=build/tutti [TUTTI_KILLS=10] python3 tests/run/run_test.py [-v] [TEST...]

A run is compared with another run, a message with what the user needs to know, a status with the contract.
"""
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import time
import unittest

from run_case import LIMIT_S, RunTest, clean_environment, ranks_of

KILLS = int(os.environ.get("TUTTI_KILLS", 10))  # how often a rank is killed


class ARunIsTheSame(RunTest):
    def test_when_it_is_made_again(self):
        first, second = self.train("first", 2), self.train("second", 2)
        self.assertEqual(first["param_hash"], second["param_hash"])
        self.assertEqual(self.losses("first"), self.losses("second"))
        self.assertNotEqual(self.train("other", 2, "run.seed=2")["param_hash"], first["param_hash"])  # a hash of something

    def test_when_it_is_made_again_with_dropout(self):
        runs = [self.train(run, 2, "model.dropout=0.1", "model.attention_dropout=0.1") for run in ("first", "second")]
        self.assertEqual(runs[0]["param_hash"], runs[1]["param_hash"])
        self.assertNotEqual(runs[0]["param_hash"], self.train("plain", 2)["param_hash"])

    def test_with_shared_and_with_own_copies_of_the_parameters(self):
        shared = self.train("shared", 3)
        own = self.train("own", 3, "parallel.share_pages=false")
        self.assertEqual(own["param_hash"], shared["param_hash"])
        self.assertEqual(self.losses("own"), self.losses("shared"))

    def test_whatever_the_ranks_share_out(self):
        # One micro-batch a step: with more, ZeRO 2 and 3 add over the ranks first.
        more = ["batch.micro=3", "batch.global=6"]
        runs = {(zero, shared): self.train(f"zero{zero}-{shared}", 2, f"parallel.zero={zero}",
                                           f"parallel.share_pages={shared}", *more)["param_hash"]
                for zero in range(4) for shared in ("true", "false")}
        self.assertEqual(1, len(set(runs.values())), runs)

    def test_with_parameters_that_stay_gathered_where_there_is_room(self):
        more = ("model.layers=6", "batch.global=24", "parallel.zero=3", "parallel.share_pages=false")
        kept = self.train("kept", 2, *more)
        needs = json.loads(self.done("train", "config.toml", "-n", 2, *more, "--dry-run", "--json"))["memory"][0]["total"]
        tight = self.train("tight", 2, *more, f"run.memory_limit={needs - 1}")
        self.assertEqual(tight["param_hash"], kept["param_hash"])
        self.assertEqual(self.losses("tight"), self.losses("kept"))
        for name, once in (("kept", True), ("tight", False)):
            plan = json.loads((self.folder / name / "plan.json").read_text())
            self.assertEqual({"once_a_step": once}, plan["gathers"])
            log = (self.folder / name / "log" / "rank-0.txt").read_text()
            self.assertIn("gathered once a step" if once else "gathered layer by layer", log)

    def test_with_activations_that_are_kept_or_made_again(self):
        for name, more in (("plain", []), ("dropout", ["model.dropout=0.1", "model.attention_dropout=0.1"])):
            kept = self.train(f"{name}-kept", 2, *more)
            for kind in ("selective", "full"):
                with self.subTest(name, recompute=kind):
                    again = self.train(f"{name}-{kind}", 2, f"parallel.recompute={kind}", *more)
                    self.assertEqual(again["param_hash"], kept["param_hash"])
                    self.assertEqual(self.losses(f"{name}-{kind}"), self.losses(f"{name}-kept"))

    def test_after_a_stop_half_way(self):
        # The constant schedule, because the others depend on run.steps, and the first half has to be a run of 20 steps.
        for name, more in (("plain", []), ("dropout", ["model.dropout=0.1"]), ("all-dropout", ["model.attention_dropout=0.1"])):
            with self.subTest(name):
                more = [*more, "optim.schedule=constant"]
                whole = self.train(f"{name}-whole", 2, "run.steps=40", *more)
                self.train(f"{name}-parts", 2, "run.steps=20", *more)
                parts = self.train(f"{name}-parts", 2, "run.steps=40", "--resume", "latest", *more)
                self.assertEqual(self.losses(f"{name}-parts"), self.losses(f"{name}-whole"))
                self.assertEqual(parts["param_hash"], whole["param_hash"])

    def test_in_its_checkpoint_when_it_is_read_and_written_without_a_step(self):
        for zero in (0, 1, 3):
            with self.subTest(zero=zero):
                words = [f"parallel.zero={zero}", f"run.dir=run-{zero}"]
                self.done("train", "config.toml", "-n", 2, *words)
                folder = self.checkpoints(f"run-{zero}")[-1]
                before = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir()}
                self.done("train", "config.toml", "-n", 2, "--resume", "latest", *words)
                after = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir()}
                self.assertEqual({name: data for name, (data, _) in after.items()}, {name: data for name, (data, _) in before.items()})
                self.assertGreater(after["index.json"][1], before["index.json"][1], "it was not written again")

    def test_after_ctrl_c_with_a_schedule_that_depends_on_the_steps(self):
        more = ["run.steps=600", "model.dropout=0.1"]
        whole = self.train("whole", 2, *more)
        saved = self.interrupt("parts", 2, 20, *more)
        self.assertIn(saved, range(20, 600))
        parts = self.train("parts", 2, "--resume", "latest", *more)
        self.assertEqual(self.losses("parts"), self.losses("whole"))
        self.assertEqual(parts["param_hash"], whole["param_hash"])

    def test_within_rounding_when_it_goes_on_with_other_ranks_and_sharding(self):
        whole = ["optim.schedule=constant", "run.checkpoint_every=10"]
        self.train("whole", 2, "run.steps=50", *whole)
        self.train("parts", 2, "run.steps=10", *whole)
        self.train("parts", 3, "run.steps=20", "--resume", "latest", *whole)
        self.train("parts", 4, "run.steps=30", "parallel.zero=2", "parallel.zero_shard=2", "--resume", "latest", *whole)
        self.train("parts", 1, "run.steps=40", "--resume", "latest", *whole)
        self.train("parts", 2, "run.steps=50", "parallel.zero=0", "--resume", "latest", *whole)
        self.assert_close(self.losses("parts"), self.losses("whole"), 1e-5)

    def test_with_overlap_and_without_whatever_is_late(self):
        # Whoever runs collectives stops for up to 2 ms now and then, by a seed: reductions meet backward at every point.
        seeds = range(1, 1 + int(os.environ.get("TUTTI_DELAY_SEEDS", "3")))
        layouts = (["parallel.dp=2"], ["parallel.dp=2", "parallel.zero=3", "parallel.share_pages=false"],
                   ["parallel.dp=2", "parallel.zero=2", "parallel.tp=2"],
                   ["parallel.dp=4", "parallel.zero=2", "parallel.zero_shard=2"])
        for layout in layouts:
            more = ("batch.global=24", "run.steps=3", "run.checkpoint_every=0", "--force", *layout)
            self.done("train", "config.toml", "parallel.overlap=false", *more)
            expected, losses = self.summary("run")["param_hash"], self.losses("run")
            for seed in seeds:
                with self.subTest(layout=layout, seed=seed):
                    late = self.command("train", "config.toml", *more, env=clean_environment() | {"TUTTI_DELAYS": str(seed)})
                    self.assertEqual(late.returncode, 0, late.stderr)
                    self.assertEqual(self.summary("run")["param_hash"], expected)
                    self.assertEqual(self.losses("run"), losses)

    def test_in_its_validation_whatever_windows_fall_to_a_rank(self):
        # Gathers of parameters meet in every forward, so ranks with fewer windows must not stay away. One of these has an odd
        # number of windows, and one fewer windows than ranks.
        for sequence, valid in ((32, 0.05), (32, 0.1), (32, 0.15), (32, 0.003), (16, 0.05)):
            more = (f"data.sequence={sequence}", f"data.valid={valid}", "run.steps=2", "run.checkpoint_every=0", "--force")
            alone = self.train("alone", 1, *more)["valid_loss"]
            for ranks in (2, 3):
                with self.subTest(sequence=sequence, valid=valid, ranks=ranks):
                    shared = self.train("shared", ranks, "parallel.zero=3", "parallel.share_pages=false", *more)["valid_loss"]
                    if alone is None:
                        self.assertIsNone(shared)
                    else:
                        self.assertAlmostEqual(shared, alone, 5)

    def test_within_rounding_when_sharding_is_turned_on_half_way(self):
        self.train("whole", 2, "run.steps=20", "optim.schedule=constant")
        self.train("parts", 2, "run.steps=10", "optim.schedule=constant", "parallel.zero=0")
        self.train("parts", 2, "run.steps=20", "optim.schedule=constant", "parallel.zero=1", "--resume", "latest")
        self.assert_close(self.losses("parts"), self.losses("whole"), 1e-5)

    def test_within_rounding_on_one_to_four_ranks(self):
        for ranks in (1, 2, 3, 4):
            self.train(f"ranks-{ranks}", ranks)
        reference = self.losses("ranks-1")
        self.assertLess(reference[-1], reference[0], "it learns, so the losses depend on the updates")
        for ranks in (2, 3, 4):
            with self.subTest(ranks=ranks):
                losses = self.losses(f"ranks-{ranks}")
                self.assert_close(losses, reference, 1e-5)
                self.assert_close(losses[:1], reference[:1], 1e-6)  # nothing but the initial parameters yet

    def test_within_rounding_with_other_micro_batches(self):
        self.train("ones", 2)
        self.train("threes", 2, "batch.micro=3")
        self.assert_close(self.losses("threes"), self.losses("ones"), 1e-5)

    def test_in_its_initial_parameters_on_one_to_four_ranks(self):
        # A learning rate of zero leaves the parameters as they were made, so the hash is that of the initialisation.
        still = ("optim.lr=0", "optim.min_lr=0", "optim.schedule=constant", "optim.weight_decay=0", "run.steps=1")
        hashes = {self.train(f"ranks-{ranks}", ranks, *still)["param_hash"] for ranks in (1, 2, 3, 4)}
        self.assertEqual(len(hashes), 1, hashes)
        self.assertNotEqual({self.train("seed", 1, *still, "run.seed=2")["param_hash"]}, hashes)


class WhenARankDies(RunTest):
    def test_the_run_ends_at_once_names_it_and_leaves_a_good_checkpoint(self):
        seed = random.randrange(1 << 32)
        chance = random.Random(seed)
        for kill in range(KILLS):
            with self.subTest(kill=kill, seed=seed):
                self.kill_one(f"run-{kill}", chance)

    def kill_one(self, run, chance):
        # Saving at every other step puts many of the kills into the middle of a save.
        process, log = self.start("train", "config.toml", "-n", 3, f"run.dir={run}", "run.steps=1000000",
                                  "run.checkpoint_every=2")
        self.until("the first checkpoint", lambda: process.poll() is not None or self.checkpoints(run))
        time.sleep(chance.uniform(0, 0.5))
        ranks = ranks_of(process.pid)
        self.assertEqual(sorted(ranks), [0, 1, 2], log.read_text())
        victim = chance.choice(sorted(ranks))
        os.kill(ranks[victim], signal.SIGKILL)
        killed = time.monotonic()
        status = process.wait(LIMIT_S)
        self.assertLess(time.monotonic() - killed, 5, "seconds from the kill to the end")
        said = log.read_text()
        self.assertEqual(status, 1, said)
        self.assertRegex(said, rf"rank {victim} \(pid {ranks[victim]}\) was killed by SIGKILL")
        for pid in ranks.values():
            self.assertFalse(pathlib.Path(f"/proc/{pid}").exists(), "no rank outlives the run")
        newest = self.checkpoints(run)[-1]
        self.done("checkpoint", "verify", newest)
        self.assertIn(newest.name, self.done("checkpoint", "verify", f"{run}"))
        shutil.rmtree(self.folder / run)

    def test_the_run_can_go_on_from_its_last_checkpoint(self):
        process, log = self.start("train", "config.toml", "-n", 2, "run.steps=1000000", "run.checkpoint_every=5")
        self.until("a checkpoint", lambda: process.poll() is not None or self.checkpoints("run"))
        os.kill(ranks_of(process.pid)[1], signal.SIGKILL)
        self.assertEqual(process.wait(LIMIT_S), 1, log.read_text())
        saved = int(self.checkpoints("run")[-1].name.removeprefix("step-"))
        self.train("run", 2, f"run.steps={saved + 3}", "--resume", "latest")
        self.assertEqual(len(self.losses("run")), saved + 3)


class WhenTheUserIsWrong(RunTest):
    def train_is_refused(self, words, *more, status=2):
        return self.refused(status, words, "train", "config.toml", "-n", 2, *more)

    def test_a_missing_token_file_is_named_with_the_command_that_makes_it(self):
        self.train_is_refused(["nothing.tokens", "tutti data prepare"], "data.train=nothing.tokens")

    def test_a_truncated_token_file_is_refused(self):
        tokens = (self.folder / "text.tokens").read_bytes()
        for length in (0, 10, len(tokens) // 2, len(tokens) - 1):
            with self.subTest(length=length):
                (self.folder / "short.tokens").write_bytes(tokens[:length])
                self.train_is_refused(["short.tokens", "tutti data prepare"], "data.train=short.tokens")

    def test_heads_that_do_not_divide_hidden_are_refused(self):
        self.train_is_refused(["heads = 5", "hidden = 32", "Set heads to"], "model.heads=5")

    def test_a_sequence_longer_than_the_context_is_refused(self):
        self.train_is_refused(["sequence = 64", "context = 32", "Set sequence to 32"], "data.sequence=64")

    def test_all_problems_are_told_at_once(self):
        self.train_is_refused(["heads = 5", "context = 32", "global = 13"], "model.heads=5", "data.sequence=64",
                              "batch.global=13")

    def test_a_batch_that_cannot_be_divided_is_refused(self):
        self.train_is_refused(["global = 13", "Set global to 12 or 14"], "batch.global=13")

    def test_nothing_is_left_behind_by_a_refusal(self):
        self.train_is_refused(["heads"], "model.heads=5")
        self.assertFalse((self.folder / "run").exists())

    def test_a_folder_with_another_run_is_kept_unless_forced(self):
        first = self.train("run", 2)
        said = self.train_is_refused(["holds another run", "--resume latest", "--force"], "run.seed=2")
        self.assertIn("run.dir=", said)
        self.assertEqual(self.summary("run"), first)
        forced = self.train("run", 2, "run.seed=2", "--force")
        self.assertNotEqual(forced["param_hash"], first["param_hash"])
        self.assertEqual(len(self.losses("run")), 10)

    def test_a_checkpoint_of_another_model_is_refused(self):
        self.train("run", 2)
        self.train_is_refused(["hidden = 64", "hidden = 32", "Resume with the config of that run"], "model.hidden=64",
                              "run.steps=12", "--resume", "latest")
        self.assertEqual(self.checkpoints("run")[-1].name, "step-10")

    def test_resuming_where_nothing_was_saved_is_refused(self):
        self.train_is_refused(["run"], "--resume", "latest")

    def test_a_damaged_checkpoint_is_refused_and_the_one_before_it_offered(self):
        self.train("run", 2, "run.checkpoint_every=5")
        newest = self.folder / "run/checkpoints/step-10"
        for file in ("rank-0.safetensors", "rank-1.safetensors", "index.json"):
            path = newest / file
            good = path.read_bytes()
            for at in (20, len(good) // 2, len(good) - 2):
                with self.subTest(file=file, at=at):
                    path.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1:])
                    self.refused(2, ["step-10"], "checkpoint", "verify", "run")
                    self.train_is_refused(["step-10", "step-5"], "run.steps=12", "--resume", "latest")
            path.write_bytes(good)
        self.train("run", 2, "run.steps=12", "--resume", "run/checkpoints/step-5")  # what was offered works


class WhenTheRunFails(RunTest):
    def test_a_full_disk_leaves_the_older_checkpoints_whole(self):
        small = self.folder / "small"
        small.mkdir()
        # Only root may mount, and not in every container; a disk that is full is hard to have otherwise.
        mount = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1500k", "tmpfs", small], capture_output=True, text=True)
        if mount.returncode != 0:
            self.skipTest(f"needs to mount a small tmpfs: {mount.stderr.strip()}")
        self.addCleanup(subprocess.run, ["umount", small], check=True)
        self.refused(1, ["No space left on device", "was not saved", "intact"], "train", "config.toml", "-n", 2,
                     "run.dir=small/run", "run.steps=100", "run.checkpoint_every=1", "run.keep=100")
        saved = self.checkpoints("small/run")
        self.assertGreaterEqual(len(saved), 1)
        for checkpoint in saved:
            self.done("checkpoint", "verify", checkpoint)

    def test_a_gradient_that_is_not_finite_names_the_step(self):
        said = self.refused(1, ["not finite", "lr"], "train", "config.toml", "-n", 2, "optim.lr=1e30", "optim.clip=0",
                            "optim.warmup_steps=0")
        self.assertRegex(said, r"Step 2: the (gradient of \S+ \(layer -?\d+\)|loss) is .*not finite.*micro-batch \d+ of 6")
        self.assertEqual(self.steps_done("run"), 1)

    def test_ctrl_c_saves_and_the_run_goes_on_from_there(self):
        saved = self.interrupt("run", 2, 5, "run.steps=1000000")
        self.assertGreaterEqual(saved, 5)
        self.done("checkpoint", "verify", "run")
        summary = self.train("run", 2, f"run.steps={saved + 2}", "--resume", "latest")
        self.assertEqual(summary["steps"], saved + 2)
        self.assertEqual(len(self.losses("run")), saved + 2)


class WhatTheEngineDecides(RunTest):
    def test_the_table_of_algorithms_can_be_edited_and_is_kept(self):
        self.train("run", 2, "run.steps=2")
        plan = self.folder / "run" / "plan.json"
        decided = json.loads(plan.read_text())
        decided["collectives"]["rows"] = [{"op": "reduce-scatter", "ranks": 2, "up_to_bytes": 1 << 30, "algorithm": "ring"}]
        plan.write_text(json.dumps(decided))
        self.train("run", 2, "run.steps=4", "--resume", "latest")
        rows = json.loads(plan.read_text())["collectives"]["rows"]
        self.assertEqual([(row["algorithm"], row["why"]) for row in rows], [("ring", "edited by hand")])

    def test_a_table_edited_into_nonsense_is_refused_by_name(self):
        self.train("run", 2, "run.steps=2")
        plan = self.folder / "run" / "plan.json"
        decided = json.loads(plan.read_text())
        decided["collectives"]["rows"] = [{"op": "reduce-scatter", "ranks": 2, "up_to_bytes": 8, "algorithm": "rings"}]
        plan.write_text(json.dumps(decided))
        self.refused(2, ["rings", "row 0"], "train", "config.toml", "-n", 2, "run.steps=4", "--resume", "latest")

    def test_any_algorithm_trains_the_same_model(self):
        losses = {}
        for algorithm in ("auto", "direct", "staged", "ring", "halving", "hierarchical"):
            self.train(algorithm, 2, f"comm.algorithm={algorithm}")
            losses[algorithm] = self.losses(algorithm)
        for algorithm, mine in losses.items():
            for step, (a, b) in enumerate(zip(mine, losses["auto"], strict=True), 1):
                self.assertAlmostEqual(a, b, delta=1e-5, msg=f"{algorithm}, step {step}")

    def test_a_signal_makes_a_rank_write_its_last_operations(self):
        process, log = self.start("train", "config.toml", "-n", 2, "run.steps=1000000")
        self.until("some steps", lambda: process.poll() is not None or self.steps_done("run") > 5)
        os.kill(ranks_of(process.pid)[1], signal.SIGUSR1)
        path = self.folder / "run" / "log" / "flight-1.json"
        self.until("the record", lambda: path.exists() and path.read_text().endswith("}\n"))
        record = json.loads(path.read_text())
        self.assertEqual(record["rank"], 1)
        self.assertIn("reduce_scatter", {operation["op"] for operation in record["operations"]})
        went_on = self.steps_done("run")
        self.until("further steps", lambda: self.steps_done("run") > went_on + 3)
        self.assertIsNone(process.poll(), log.read_text())


class TheOtherWaysIn(RunTest):
    def test_the_same_seed_samples_the_same_text(self):
        self.train("run", 2)
        sample = ("sample", "run", "--prompt", "X", "--tokens", 20)
        first = self.done(*sample, "--seed", 1)
        self.assertTrue(first.strip())
        self.assertEqual(self.done(*sample, "--seed", 1), first)
        self.assertNotEqual(self.done(*sample, "--seed", 2), first)

    def test_json_is_one_document_and_nothing_else(self):
        for more in ([], ["--dry-run"]):
            with self.subTest(more=more):
                document = json.loads(self.done("train", "config.toml", "-n", 2, "--force", "--json", *more))
                self.assertEqual(document["ranks"], 2)
        self.done("train", "config.toml", "-n", 2, "--force")
        document = json.loads(self.done("train", "config.toml", "-n", 2, "--force", "--json"))
        self.assertEqual(document, self.summary("run"))

    def test_eval_only_prints_one_document_too(self):
        self.train("run", 2)
        files = {path: path.read_bytes() for path in (self.folder / "run").glob("*.*")}
        document = json.loads(self.done("train", "config.toml", "-n", 2, "--resume", "latest", "--eval-only", "--json"))
        self.assertEqual(document["valid_loss"], self.summary("run")["valid_loss"])
        self.assertEqual({path: path.read_bytes() for path in files}, files, "looking at a run must not change it")


if __name__ == "__main__":
    unittest.main()
