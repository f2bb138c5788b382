"""`tutti launch` with real processes: who failed, how fast everybody is gone, what they print and inherit."""
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

TUTTI = str(pathlib.Path(sys.argv.pop(1)).resolve())
GONE_WITHIN_S = 5
# A sanitizer makes the program several times slower, and its runs share the cores with the tests of groups of ranks.
PATIENCE = float(os.environ.get("TUTTI_PATIENCE", 1))


def command(script, ranks, *options):
    return [TUTTI, "launch", "-n", str(ranks), *options, "--", "sh", "-c", script]


def launch(script, ranks=2, *options, **kwargs):
    start = time.monotonic()
    done = subprocess.run(command(script, ranks, *options), capture_output=True, text=True, timeout=60 * PATIENCE,
                          stdin=subprocess.DEVNULL, **kwargs)
    done.seconds = time.monotonic() - start
    return done


def alive(pid):
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"  # whoever adopts orphans here may be slow to reap them


class Launch(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.dir = pathlib.Path(self.folder.name)

    def start(self, script, ranks=2):
        """Starts in the background and waits until every rank has printed a line."""
        process = subprocess.Popen(command(script, ranks, "--prefix"), stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.kill)
        return process, [process.stdout.readline() for _ in range(ranks)]

    def assert_all_gone(self, folder=None):
        pids = [int(path.read_text()) for path in (folder or self.dir).glob("pid*")]
        self.assertTrue(pids)
        deadline = time.monotonic() + GONE_WITHIN_S
        while any(map(alive, pids)) and time.monotonic() < deadline:
            time.sleep(0.02)
        self.assertEqual([pid for pid in pids if alive(pid)], [])

    def test_all_ranks_done_is_success(self):
        done = launch("exit 0", 3)
        self.assertEqual(done.returncode, 0)
        self.assertNotIn("was", done.stderr)

    def test_ranks_see_torchruns_variables(self):
        done = launch('echo "$RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $MASTER_ADDR $MASTER_PORT $TUTTI_RUN_ID '
                      '${TUTTI_STORE_FD-none}"', 3)
        lines = sorted(line.split() for line in done.stdout.splitlines())
        self.assertEqual([line[:5] for line in lines], [[str(r), "3", str(r), "3", "127.0.0.1"] for r in range(3)])
        self.assertEqual(len({(line[5], line[6]) for line in lines}), 1)
        self.assertEqual({line[7] for line in lines}, {"none"})

    def test_the_port_is_free_for_rank_zero(self):
        done = launch("""[ $RANK != 0 ] || python3 -c '
import os, socket
socket.create_server(("127.0.0.1", int(os.environ["MASTER_PORT"])))'""")
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_a_failing_rank_is_named_and_the_others_stopped(self):
        done = launch(f'echo $$ > {self.dir}/pid$RANK; [ $RANK = 1 ] && exit 3; sleep 60', 3)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"tutti: rank 1 \(pid \d+\) ended with status 3 [\d.]+ s after the start; the other")
        self.assertLess(done.seconds, GONE_WITHIN_S)
        self.assert_all_gone()

    def test_a_killed_rank_is_named_with_its_signal(self):
        done = launch(f'echo $$ > {self.dir}/pid$RANK; [ $RANK = 0 ] && kill -9 $$; sleep 60')
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"rank 0 \(pid \d+\) was killed by SIGKILL")
        self.assertLess(done.seconds, GONE_WITHIN_S)
        self.assert_all_gone()

    def test_ranks_that_ignore_sigterm_are_killed(self):
        done = launch(f'trap "" TERM; echo $$ > {self.dir}/pid$RANK; [ $RANK = 1 ] && exit 4; while :; do sleep 1; done')
        self.assertEqual(done.returncode, 1)
        self.assertLess(done.seconds, GONE_WITHIN_S)
        self.assert_all_gone()

    def test_what_ranks_have_forked_goes_with_them(self):
        done = launch(f'sleep 60 & echo $! > {self.dir}/pid$RANK; [ $RANK = 1 ] && exit 3; wait')
        self.assertEqual(done.returncode, 1)
        self.assertLess(done.seconds, GONE_WITHIN_S)
        self.assert_all_gone()

    def test_the_others_may_print_what_they_noticed(self):
        done = launch("[ $RANK = 1 ] && exit 3; sleep 1; echo rank 1 is gone >&2; exit 1")
        self.assertIn("rank 1 is gone", done.stderr)
        self.assertRegex(done.stderr, r"tutti: rank 1 \(pid")
        self.assertLess(done.seconds, 3)

    def test_a_users_mistake_found_by_a_rank_is_status_2(self):
        self.assertEqual(launch("exit 2").returncode, 2)

    def test_a_program_that_is_not_there_is_the_users_mistake(self):
        done = subprocess.run([TUTTI, "launch", "-n", "2", "--", "./missing"], capture_output=True, text=True, timeout=20 * PATIENCE)
        self.assertEqual(done.returncode, 2)
        self.assertIn("./missing cannot be started: No such file", done.stderr)

    def test_sigint_reaches_every_rank_once_and_gives_130(self):
        script = 'n=0; trap "n=\\$((n+1)); echo got \\$n" INT; echo up; for i in 1 2 3 4 5 6; do sleep 0.1; done'
        process, _ = self.start(script)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=20 * PATIENCE)
        self.assertEqual(process.returncode, 130)
        self.assertEqual(sorted(out.split("\n")[:-1]), ["[0] got 1", "[1] got 1"])

    def test_ranks_may_take_their_time_after_sigint_until_the_second(self):
        process, _ = self.start('trap "echo saving" INT; echo up; while :; do sleep 0.1; done')
        process.send_signal(signal.SIGINT)
        self.assertEqual({process.stdout.readline() for _ in range(2)}, {"[0] saving\n", "[1] saving\n"})
        self.assertIsNone(process.poll())
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=GONE_WITHIN_S)
        self.assertEqual(process.returncode, 130)

    def test_sigterm_is_passed_on(self):
        process, _ = self.start('trap "echo term; exit 0" TERM; echo up; while :; do sleep 0.1; done')
        process.terminate()
        out, _ = process.communicate(timeout=GONE_WITHIN_S)
        self.assertEqual(process.returncode, 143)
        self.assertEqual(sorted(out.split("\n")[:-1]), ["[0] term", "[1] term"])

    def test_ranks_die_with_a_killed_launcher(self):
        process, lines = self.start("echo $$; exec sleep 60")
        for rank, line in enumerate(lines):
            (self.dir / f"pid{rank}").write_text(re.sub(r"\[\d\] ", "", line))
        process.kill()
        process.wait()
        self.assert_all_gone()

    def test_prefixed_lines_are_whole(self):
        done = launch('i=0; while [ $i -lt 200 ]; do printf "a$RANK"; echo b; i=$((i+1)); done; printf end', 3, "--prefix")
        lines = done.stdout.splitlines()
        for rank in range(3):
            mine = [line for line in lines if line.startswith(f"[{rank}] ")]
            self.assertEqual(mine, [f"[{rank}] a{rank}b"] * 200 + [f"[{rank}] end"])
        self.assertEqual(len(lines), 3 * 201)

    def test_a_reader_that_sleeps_stops_no_rank(self):
        """60 MB of empty lines into a pipe that nobody reads: the ranks end all the same, and the launcher after them."""
        script = f'head -c 30000000 /dev/zero | tr "\\0" "\\n"; : > {self.dir}/done$RANK'
        process = subprocess.Popen(command(script, 2, "--prefix"), stdout=subprocess.PIPE)
        self.addCleanup(process.stdout.close)
        self.assertEqual(process.wait(timeout=50 * PATIENCE), 0)
        self.assertEqual(len(list(self.dir.glob("done*"))), 2)

    def test_a_reader_that_leaves_stops_no_rank(self):
        process = subprocess.Popen(command("i=0; while [ $i -lt 5000 ]; do echo x; i=$((i+1)); done", 2, "--prefix"),
                                   stdout=subprocess.PIPE)
        process.stdout.close()
        self.assertEqual(process.wait(timeout=20 * PATIENCE), 0)

    def test_ranks_inherit_no_descriptor_of_the_launcher(self):
        # Standard streams, the listing's own folder, and nothing else. close_fds keeps the test's own out of it.
        done = launch("exec python3 -c 'import os; print(sorted(map(int, os.listdir(\"/proc/self/fd\"))))'", 2, "--prefix")
        for line in done.stdout.splitlines():
            self.assertRegex(line, r"^\[\d\] \[0, 1, 2, 3\]$")

    def test_ranks_start_with_no_signal_blocked_or_ignored(self):
        done = launch("exec grep -E 'Sig(Blk|Ign)' /proc/self/status", 1)
        self.assertEqual(re.findall(r"\t(\w+)", done.stdout), ["0" * 16] * 2)

    def test_masks_are_set_before_the_program_runs(self):
        allowed = sorted(os.sched_getaffinity(0))
        script = "exec python3 -c 'import os; print(*sorted(os.sched_getaffinity(0)))'"
        done = launch(script, len(allowed), "--bind", "core")
        self.assertEqual(done.returncode, 0, done.stderr)
        bound = [set(map(int, line.split())) for line in done.stdout.splitlines()]
        self.assertEqual(sorted(sum(map(sorted, bound), [])), allowed)
        self.assertEqual(launch(script, 1).stdout.split(), list(map(str, allowed)))

    def test_threads_are_shared_out_unless_the_user_has_chosen(self):
        cores = len(os.sched_getaffinity(0))
        env = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
        one = launch("echo $OMP_NUM_THREADS", 1, env=env).stdout
        self.assertLessEqual(int(one), cores)
        self.assertEqual(launch("echo $OMP_NUM_THREADS", cores, env=env).stdout, "1\n" * cores)
        self.assertEqual(launch("echo $OMP_NUM_THREADS", 1, env=env | {"OMP_NUM_THREADS": "7"}).stdout, "7\n")

    def test_only_rank_zero_reads_standard_input(self):
        done = subprocess.run(command("echo $RANK:$(cat)", 2), input="text", capture_output=True, text=True, timeout=20 * PATIENCE)
        self.assertEqual(sorted(done.stdout.split()), ["0:text", "1:"])


class Program(unittest.TestCase):
    def test_links_no_libtorch(self):
        needed = subprocess.run(["ldd", TUTTI], capture_output=True, text=True, check=True).stdout
        self.assertIn("libc.so", needed)
        self.assertNotRegex(needed, r"torch|libc10|libgomp")

    def test_as_a_rank_of_torchrun_half_a_set_of_variables_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            config = pathlib.Path(folder) / "c.toml"
            config.write_text("[run]\nsteps = 1\n")
            done = subprocess.run([TUTTI, "train", str(config)], env={"PATH": os.environ["PATH"], "RANK": "1"},
                                  capture_output=True, text=True, timeout=20 * PATIENCE)
        self.assertEqual(done.returncode, 2)
        self.assertIn("WORLD_SIZE", done.stderr)


unittest.main()
