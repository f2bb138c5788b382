"""A folder that is whole or absent, whenever somebody looks: for what scripts/bootstrap.sh unpacks."""
import os
import pathlib
import shutil


def write(files: dict[str, bytes], folder: pathlib.Path) -> None:
    """Writes the files (name -> content) beside `folder` and renames."""
    part = folder.with_name(folder.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    for name, content in files.items():
        (part / name).write_bytes(content)
    shutil.rmtree(folder, ignore_errors=True)
    os.rename(part, folder)
