"""Ranks started by mpirun and srun themselves: `tutti train --dry-run` says what each has understood of its place.

A launcher that is not installed is skipped by name. srun needs Slurm's two daemons: they run here for this test alone, with
a configuration of their own, which takes root.
"""
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

TUTTI = str(pathlib.Path(sys.argv.pop(1)).resolve())
INPUTS = pathlib.Path(__file__).resolve().parent.parent / "golden/inputs"
DRY_RUN = [TUTTI, "train", "good.toml", "--dry-run", "--json"]
PLAIN = {name: value for name, value in os.environ.items()
         if not name.startswith(("SLURM", "OMPI", "PMI", "MPI_")) and name not in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")}


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


class Launchers(unittest.TestCase):
    def run_in_inputs(self, *command, env=PLAIN):
        return subprocess.run(command, cwd=INPUTS, env=env, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)


@unittest.skipUnless(shutil.which("mpirun"), "no mpirun: apt-get install openmpi-bin")
class Mpirun(Launchers):
    def mpirun(self, ranks, *options):
        return self.run_in_inputs("mpirun", "--oversubscribe", "--tag-output", "-n", str(ranks), *options, *DRY_RUN,
                                  env=PLAIN | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})

    def test_its_processes_are_the_ranks(self):
        done = self.mpirun(2)
        self.assertEqual(done.returncode, 0, done.stderr)
        for rank in range(2):  # lines of two ranks come mixed: each begins with its own mark
            mine = [line.split(":", 1)[1] for line in done.stdout.splitlines() if line.startswith(f"[1,{rank}]<stdout>:")]
            self.assertEqual(json.loads("\n".join(mine))["ranks"], 2)

    def test_their_number_stands_against_n(self):
        done = self.run_in_inputs("mpirun", "--oversubscribe", "-n", "2", *DRY_RUN, "-n", "3",
                                  env=PLAIN | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("-n 3 contradicts", done.stderr)


@unittest.skipUnless(shutil.which("srun") and shutil.which("slurmctld"), "no Slurm: apt-get install slurm-wlm")
@unittest.skipUnless(os.geteuid() == 0, "slurmd needs root")
class Srun(Launchers):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = pathlib.Path(folder.name)
        host, (control, node) = socket.gethostname().split(".")[0], free_ports(2)
        (self.dir / "state").mkdir()
        (self.dir / "spool").mkdir()
        (self.dir / "slurm.conf").write_text(f"""ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={control}
SlurmdPort={node}
AuthType=auth/none
CredType=cred/none
SlurmUser=root
StateSaveLocation={self.dir}/state
SlurmdSpoolDir={self.dir}/spool
SlurmctldPidFile={self.dir}/control.pid
SlurmdPidFile={self.dir}/node.pid
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
NodeName={host} NodeAddr=127.0.0.1 CPUs={os.cpu_count()} State=UNKNOWN
PartitionName=test Nodes={host} Default=YES State=UP
""")
        self.env = PLAIN | {"SLURM_CONF": str(self.dir / "slurm.conf")}
        for daemon in ("slurmctld", "slurmd"):
            with open(self.dir / f"{daemon}.log", "w") as log:
                process = subprocess.Popen([daemon, "-D"], env=self.env, stdout=log, stderr=log)
            self.addCleanup(process.wait, timeout=20)
            self.addCleanup(process.send_signal, signal.SIGKILL)
        deadline = time.monotonic() + 20
        while "idle" not in self.run_in_inputs("sinfo", "-h", "-o", "%T", env=self.env).stdout:
            if time.monotonic() > deadline:
                self.skipTest("Slurm does not start here: " + (self.dir / "slurmd.log").read_text()[-300:])
            time.sleep(0.1)

    def test_its_tasks_are_the_ranks_and_a_batch_script_is_none(self):
        tasks = min(2, os.cpu_count())
        one = self.run_in_inputs("srun", "-n", str(tasks), "--label", *DRY_RUN, env=self.env)
        self.assertEqual(one.returncode, 0, one.stderr)
        for rank in range(tasks):
            mine = [line.split(":", 1)[1] for line in one.stdout.splitlines() if line.startswith(f"{rank}:")]
            self.assertEqual(json.loads("\n".join(mine))["ranks"], tasks)

        script = self.dir / "job"
        script.write_text("#!/bin/sh\nexec " + " ".join(DRY_RUN) + " -n 1\n")
        done = self.run_in_inputs("sbatch", "-W", "-n", str(tasks), "-o", str(self.dir / "out"), str(script), env=self.env)
        self.assertEqual(done.returncode, 0, done.stderr + (self.dir / "out").read_text())
        self.assertEqual(json.loads((self.dir / "out").read_text())["ranks"], 1)


unittest.main()
