"""`tutti verify` accepts every layout, and refuses every planted fault naming the tensor it spoilt.

A certificate that cannot fail proves nothing, so each fault of TUTTI_FAULT runs through the same command.
Usage: verify_test.py TUTTI CONFIG
"""
import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

TUTTI, CONFIG = sys.argv[1:3]

# What each fault spoils first, or most: where the certificate must point.
REPLICA_FAULTS = {
    "skip_bucket": r"^grad/",  # gradients of the last bucket are one rank's own
    "swap_shard": r"^grad/",
    "double_norm": r"^(?!grad/)",  # gradients are right, the clipped update is not
    "lose_tie": r"^grad/wte\.weight",
    "token_count": r"^grad/",
}
COPY_FAULTS = {"skip_copies": r"^grad/"}
PART_FAULTS = {
    "skip_partial": r"^grad/(wpe\.weight|blocks\.\d\.(ln\d\.|attn\.proj\.bias|proj\.bias))",
    "bias_twice": r"^grad/blocks\.\d\.(attn\.)?proj\.bias",
    "one_band": r"^grad/blocks\.0\.(ln1|attn\.qkv)\.",
    "vocab_edge": r"^grad/wte\.weight",
    "own_logits": r"^grad/wte\.weight",
}

# Every two values of tp, zero, sequence, recompute and dp meet in some row, and share_pages = false where it matters.
COVERING = (pathlib.Path(__file__).parent / "layouts.txt").read_text().split()


# The same in bf16, where roundings hide less than 2^-9 of anything: each way to hold and to split parameters once.
IN_BF16 = ("dp=2", "dp=3,zero=0", "dp=2,zero=2,recompute=full", "dp=2,zero=3,share_pages=false", "dp=4,zero_shard=2",
           "tp=2,recompute=selective", "tp=2,sequence=false", "tp=2,dp=2,zero=3,share_pages=false")


def verify(*layouts, fault=None, config=CONFIG):
    env = {key: value for key, value in os.environ.items() if key != "TUTTI_FAULT"}
    if fault:
        env["TUTTI_FAULT"] = fault
    done = subprocess.run([TUTTI, "verify", config, "--layouts", *layouts, "--json"], env=env, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=600)
    return done.returncode, json.loads(done.stdout)


class Verify(unittest.TestCase):
    def test_every_layout_trains_the_same_model(self):
        layouts = COVERING
        status, certificate = verify(*layouts)
        self.assertEqual([], [row for row in certificate["layouts"] if row["first_difference"] or not row["bitwise_repeat"]])
        self.assertEqual((0, True), (status, certificate["ok"]))
        self.assertEqual(len(layouts), len(certificate["layouts"]))

    def test_grouped_queries_are_the_same_model_in_parts(self):
        with self.config_with("[model]\n", "[model]\nkv_heads = 2\n") as config:
            status, certificate = verify("dp=2", "tp=2", "tp=2,recompute=full,dp=2,zero=3,share_pages=false", config=config)
            self.assertEqual((0, True), (status, certificate["ok"]), certificate)

    def test_layouts_in_bf16_train_what_one_rank_does(self):
        with self.config_with("[run]\n", '[run]\nprecision = "bf16"\n') as config:
            status, certificate = verify(*IN_BF16, config=config)
            self.assertEqual([], [row for row in certificate["layouts"] if row["first_difference"] or not row["bitwise_repeat"]])
            self.assertEqual((0, True), (status, certificate["ok"]))
            self.assertGreater(min(row["grad_error"] for row in certificate["layouts"]), 1e-4)  # bf16 it was
            for fault, layouts in {"skip_bucket": ["dp=2"], "lose_tie": ["dp=2,zero=3,share_pages=false"],
                                   "vocab_edge": ["tp=2"]}.items():
                self.finds(fault, (REPLICA_FAULTS | PART_FAULTS)[fault], *layouts, config=config)

    @contextlib.contextmanager
    def config_with(self, place, change):
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as config:
            text = pathlib.Path(CONFIG).read_text()
            self.assertEqual(1, text.count(place))
            config.write(text.replace(place, change))
            config.flush()
            yield config.name

    def finds(self, fault, tensor, *layouts, config=CONFIG):
        with self.subTest(fault):
            status, certificate = verify(*layouts, fault=fault, config=config)
            self.assertEqual((1, False), (status, certificate["ok"]))
            self.assertEqual(len(layouts), len(certificate["layouts"]))
            for row in certificate["layouts"]:
                named = [row["first_difference"], row["largest_difference"]]
                self.assertTrue(any(name and re.search(tensor, name) for name in named), (row["layout"], named))

    def test_every_fault_between_replicas_is_found_and_named(self):
        for fault, tensor in REPLICA_FAULTS.items():
            self.finds(fault, tensor, "dp=2", "dp=2,zero=3,share_pages=false", "dp=2,tp=2")

    def test_every_fault_between_copies_of_shards_is_found_and_named(self):
        for fault, tensor in COPY_FAULTS.items():
            self.finds(fault, tensor, "dp=4,zero_shard=2", "dp=4,zero=3,zero_shard=2,share_pages=false", "dp=2,zero_shard=1")

    def test_every_fault_between_parts_is_found_and_named(self):
        for fault, tensor in PART_FAULTS.items():
            whole_rows = [] if fault == "skip_partial" else ["tp=2,sequence=false"]  # there no gradient is partial
            self.finds(fault, tensor, "tp=2", "tp=2,dp=2", *whole_rows)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
