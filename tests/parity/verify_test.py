"""`tutti verify` accepts every layout, and refuses every planted fault naming the tensor it spoilt.

A certificate that cannot fail proves nothing, so each fault of TUTTI_FAULT runs through the same command.
Usage: verify_test.py TUTTI CONFIG
"""
import json
import os
import subprocess
import sys
import unittest

TUTTI, CONFIG = sys.argv[1:3]

# What each fault spoils first: where the certificate must point.
FAULTS = {
    "skip_bucket": r"^grad/",  # gradients of the last bucket are one rank's own
    "swap_shard": r"^grad/",
    "double_norm": r"^(?!grad/)",  # gradients are right, the clipped update is not
    "lose_tie": r"^grad/wte\.weight",
    "token_count": r"^grad/",
}


def verify(*layouts, fault=None):
    env = {key: value for key, value in os.environ.items() if key != "TUTTI_FAULT"}
    if fault:
        env["TUTTI_FAULT"] = fault
    done = subprocess.run([TUTTI, "verify", CONFIG, "--layouts", *layouts, "--json"], env=env, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=240)
    return done.returncode, json.loads(done.stdout)


class Verify(unittest.TestCase):
    def test_every_layout_trains_the_same_model(self):
        layouts = ["dp=2", "dp=2,zero=0", "dp=2,micro=3", "dp=3", "dp=4", "dp=4,zero=0", "dp=6,micro=2",
                   "dp=2,recompute=full", "dp=2,zero=0,recompute=selective",
                   "dp=2,zero=2", "dp=3,zero=2,micro=1", "dp=2,zero=3", "dp=2,zero=3,share_pages=false",
                   "dp=3,zero=3,share_pages=false,micro=1,recompute=full"]
        status, certificate = verify(*layouts)
        self.assertEqual([], [row for row in certificate["layouts"] if row["first_difference"] or not row["bitwise_repeat"]])
        self.assertEqual((0, True), (status, certificate["ok"]))
        self.assertEqual(len(layouts), len(certificate["layouts"]))

    def test_every_planted_fault_is_found_and_named(self):
        for fault, tensor in FAULTS.items():
            with self.subTest(fault):
                status, certificate = verify("dp=2", "dp=2,zero=3,share_pages=false", fault=fault)
                self.assertEqual((1, False), (status, certificate["ok"]))
                self.assertEqual(2, len(certificate["layouts"]))
                for row in certificate["layouts"]:
                    first = row["first_difference"]
                    self.assertRegex(first if isinstance(first, str) else json.dumps(first), tensor)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
