"""`make bench`: every benchmark in turn; what each claims or prints stands at the head of its file."""
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).parent

failed = [name for name in ("startup", "collectives", "tokenizer", "ddp", "train_vs_torch", "train_shakespeare")
          if subprocess.run([sys.executable, HERE / f"{name}.py"]).returncode != 0]
sys.exit(f"failed: {', '.join(failed)}" if failed else 0)
