"""Runs on GPT-2's tokens: the tokenizer goes with the token file into the run, and `tutti sample` reads and writes text by it.

    TUTTI_PROGRAM=build/tutti python3 tests/run/text_test.py [-v] [TEST...]
"""
import shutil
import subprocess
import unittest

from run_case import LIMIT_S, ROOT, TUTTI, RunTest, clean_environment

VOCABULARY = ROOT / ".deps/gpt2"
SMALL = ("model.layers=1", "model.hidden=16", "model.heads=2", "model.vocab=50257", "batch.global=2", "run.steps=2",
         "data.sequence=16", "data.train=gpt2.tokens")


@unittest.skipUnless((VOCABULARY / "vocab.bpe").exists(), "no vocabulary in .deps/gpt2: scripts/bootstrap.sh fetches it")
class OnGpt2sTokens(RunTest):
    def setUp(self):
        super().setUp()
        self.done("data", "prepare", ROOT / "LICENSE", "--tokenizer", "gpt2", "--vocabulary", VOCABULARY, "-o", "gpt2.tokens")


class WhatAUserGetsWrong(OnGpt2sTokens):
    def refused_bytes(self, status, words, *arguments):
        """As refused(), with arguments that need not be text."""
        done = subprocess.run([TUTTI, *arguments], cwd=self.folder, env=clean_environment(), capture_output=True, timeout=LIMIT_S)
        said = done.stderr.decode(errors="replace")
        self.assertEqual(done.returncode, status, said)
        for word in words:
            self.assertIn(word, said)

    def test_a_prompt_that_is_no_utf8_is_refused_with_its_first_bad_byte(self):
        self.train("run", 1, *SMALL)
        self.refused_bytes(2, ["--prompt", "byte 4 (0xff)", "UTF-8"], "sample", "run", "--prompt", b"Once\xff upon")
        self.refused_bytes(2, ["--prompt", "byte 1 (0xe2)"], "sample", "run", "--prompt", b"x\xe2\x82")
        self.refused(2, ["--prompt is empty"], "sample", "run", "--prompt", "")

    def test_k_beyond_the_vocabulary_chooses_among_all_of_it(self):
        self.train("run", 1, *SMALL)
        sample = ("sample", "run", "--prompt", "Once", "--tokens", 8, "--top-k")
        everything = self.done(*sample, 0)
        self.assertTrue(everything.startswith("Once"))
        self.assertEqual(self.done(*sample, 50258), everything)
        self.assertEqual(self.done(*sample, 2**31 - 1), everything)
        self.refused(2, ["--top-k"], *sample, -1)
        self.refused(2, ["--top-k"], *sample, 2**31)

    def test_token_files_of_two_tokenizers_are_refused_by_name(self):
        self.refused(2, ["text.tokens was made by the tokenizer bytes (vocabulary 256)", "gpt2.tokens by gpt2 (vocabulary 50257)",
                         "Prepare both with the same tokenizer"],
                     "train", "config.toml", "-n", 1, *SMALL, 'data.train=["gpt2.tokens", "text.tokens"]')
        self.refused(2, ["vocab = 50257", "tokenizer bytes"], "train", "config.toml", "-n", 1, *SMALL, "data.train=text.tokens")


class WhereTheVocabularyIsNot(OnGpt2sTokens):
    """The program stands where no folder above it has .deps/gpt2, as after an installation."""

    def setUp(self):
        super().setUp()
        alone = self.folder / "bin"
        for name in ("tutti", "libexec/tutti-torch"):
            (alone / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(TUTTI.parent / name, alone / name)
        self.program = alone / "tutti"

    def alone(self, *arguments):
        done = subprocess.run([self.program, *map(str, arguments)], cwd=self.folder, env=clean_environment(), text=True,
                              capture_output=True, timeout=LIMIT_S)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def test_a_run_keeps_the_tokenizer_that_stands_beside_its_token_file(self):
        said = self.alone("train", "config.toml", "-n", 2, "run.dir=run", *SMALL).stderr
        self.assertNotIn("keeps no tokenizer", said)
        text = self.alone("sample", "run", "--prompt", "Once", "--tokens", 8).stdout
        self.train("run-with-vocabulary", 2, *SMALL)
        self.assertEqual(text, self.done("sample", "run-with-vocabulary", "--prompt", "Once", "--tokens", 8))

    def test_without_either_the_run_trains_and_says_what_is_missing(self):
        (self.folder / "gpt2.tokens.tokenizer.json").unlink()
        said = self.alone("train", "config.toml", "-n", 1, "run.dir=run", *SMALL).stderr
        self.assertIn("the run keeps no tokenizer", said)
        self.assertIn("vocab.bpe", said)
        self.assertFalse((self.folder / "run/tokenizer.json").exists())

    def test_a_copy_that_is_another_tokenizers_is_not_taken(self):
        shutil.copy2(self.folder / "text.tokens.tokenizer.json", self.folder / "gpt2.tokens.tokenizer.json")
        said = self.alone("train", "config.toml", "-n", 1, "run.dir=run", *SMALL).stderr
        self.assertIn("gpt2.tokens.tokenizer.json is not the gpt2 that made the token file", said)
        self.assertFalse((self.folder / "run/tokenizer.json").exists())


if __name__ == "__main__":
    unittest.main()
