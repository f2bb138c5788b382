"""mpirun and srun for tests: what they need to start ranks on this host, and why they cannot.

Open MPI refuses root unless told twice. srun needs Slurm's two daemons: they run for one test, with a configuration of their
own, which takes root.
"""
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest

PLAIN = {name: value for name, value in os.environ.items()
         if not name.startswith(("SLURM", "OMPI", "PMI", "MPI_", "TUTTI_"))
         and name not in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")}
MPIRUN = ["mpirun", "--oversubscribe"]
MPIRUN_ENV = PLAIN | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}

needs_mpirun = unittest.skipUnless(shutil.which("mpirun"), "no mpirun: apt-get install openmpi-bin")


def needs_slurm(test):
    for there, why in ((shutil.which("srun") and shutil.which("slurmctld") and shutil.which("slurmd"),
                        "no Slurm: apt-get install slurm-wlm"), (os.geteuid() == 0, "slurmd needs root")):
        test = unittest.skipUnless(there, why)(test)
    return test


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


def start_slurm(test):
    """A Slurm of this host alone, until the end of `test`. Returns the environment for its commands, or skips the test."""
    folder = tempfile.TemporaryDirectory()
    test.addCleanup(folder.cleanup)
    path = pathlib.Path(folder.name)
    host, (control, node) = socket.gethostname().split(".")[0], free_ports(2)
    (path / "state").mkdir()
    (path / "spool").mkdir()
    (path / "slurm.conf").write_text(f"""ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={control}
SlurmdPort={node}
AuthType=auth/none
CredType=cred/none
SlurmUser=root
StateSaveLocation={path}/state
SlurmdSpoolDir={path}/spool
SlurmctldPidFile={path}/control.pid
SlurmdPidFile={path}/node.pid
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
    env = PLAIN | {"SLURM_CONF": str(path / "slurm.conf")}
    for daemon in ("slurmctld", "slurmd"):
        with open(path / f"{daemon}.log", "w") as log:
            process = subprocess.Popen([daemon, "-D"], env=env, stdout=log, stderr=log)
        test.addCleanup(process.wait, timeout=20)
        test.addCleanup(process.send_signal, signal.SIGKILL)
    deadline = time.monotonic() + 20
    while "idle" not in subprocess.run(["sinfo", "-h", "-o", "%T"], env=env, capture_output=True, text=True, timeout=60).stdout:
        if time.monotonic() > deadline:
            test.skipTest("Slurm does not start here: " + (path / "slurmd.log").read_text()[-300:])
        time.sleep(0.1)
    return env
