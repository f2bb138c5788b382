"""Searches the models of the flag protocol (docs/design/0007) and checks that every planted fault is found.

    python3 tests/flag_protocol_test.py [-v]

A model that cannot fail proves nothing, so each one is searched as it is (no error) and with each of its faults (an error).
Needs the model checker SPIN and a C compiler; is skipped (77) where either is missing. Two operations a rank: the figures of
the document are those of longer searches.
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

MODELS = pathlib.Path(__file__).resolve().parent.parent / "docs" / "design" / "flag-protocol"
ARRIVAL = ("-DK=2",)


def errors(model, *defines):
    """How many errors an exhaustive search finds (it stops at the first)."""
    with tempfile.TemporaryDirectory() as folder:
        def run(*words):
            done = subprocess.run([str(word) for word in words], cwd=folder, check=True, capture_output=True, text=True, timeout=110)
            return done.stdout
        run("spin", "-a", *defines, MODELS / model)
        run("cc", "-O1", "-DSAFETY", "-DCOLLAPSE", "-o", "pan", "pan.c")
        text = run("./pan", "-m200000")
    found = int(re.search(r"errors: (\d+)", text).group(1))
    if found == 0 and ("Search not completed" in text or "max search depth too small" in text):
        raise AssertionError(f"{model} {defines}: not everything was searched\n{text}")
    return found


class FlagProtocol(unittest.TestCase):
    def test_arrivals_and_marks_hold_on_x86_and_on_arm(self):
        self.assertEqual(errors("arrival.pml", "-DTSO", *ARRIVAL), 0)
        self.assertEqual(errors("arrival.pml", *ARRIVAL), 0)

    def test_no_wake_up_is_lost(self):
        self.assertEqual(errors("bed.pml"), 0)

    def test_faults_of_arrivals_and_marks_are_found(self):
        for fault in ("NO_RELEASE", "NO_ACQUIRE", "ONE_SLOT", "NO_FINAL_SYNC"):
            with self.subTest(fault):
                self.assertEqual(errors("arrival.pml", f"-D{fault}", *ARRIVAL), 1)

    def test_a_plain_load_is_found_even_where_stores_keep_their_order(self):
        self.assertEqual(errors("arrival.pml", "-DTSO", "-DNO_ACQUIRE", *ARRIVAL), 1)

    def test_faults_of_sleepers_are_found(self):
        for fault in ("NO_FENCE", "NO_SECOND_LOOK", "NO_COUNTER", "EARLY_VALUE"):
            with self.subTest(fault):
                self.assertEqual(errors("bed.pml", f"-D{fault}"), 1)


if __name__ == "__main__":
    if shutil.which("spin") is None or shutil.which("cc") is None:
        print("skipped: no spin or no cc")
        sys.exit(77)
    unittest.main()
