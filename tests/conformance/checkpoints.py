"""A program stops and comes back again and again, and its results are those of a run that was left alone.

checkpoints.py CRIU CYCLES SEED PROGRAM ARGS: starts the program with images of each rank, makes a checkpoint at a random moment, kills the
job, restarts it, and so on; the last restart goes on to its end. The number of ranks is in NP.
"""

import os
import random
import signal
import subprocess
import sys
import time

criu, cycles, seed, *program = sys.argv[1:]
cycles, chance = int(cycles), random.Random(int(seed))
LIMIT = 60
sets = os.path.abspath("sets")
parameters = ["--mca", "cr_base_dir", sets, "--mca", "cr_blcr_criu", criu]
start = ["mpirun", "--timeout", "200", "-n", os.environ["NP"], "--mca", "cr", "blcr", *parameters]
start += [sys.executable, *program]


def results(name):
    with open(name) as file:
        return [line for line in file if line.startswith("result ")]


def begin(words, name):
    mode = "w" if words is start else "a"
    with open(name, mode) as out, open(name + ".said", "a") as said:
        out = out if words is start else said
        # In a container CRIU makes no image of processes whose session was begun outside.
        return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=said, start_new_session=True)


def await_that(what, condition):
    end = time.monotonic() + LIMIT
    while not condition():
        if time.monotonic() > end:
            sys.exit(f"{what} after {LIMIT} s")
        time.sleep(0.01)


def lose(process):
    """Kills mpirun; its ranks end with it."""
    tree = descendants(process.pid)
    for pid in tree:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    process.wait(LIMIT)
    await_that("processes are left", lambda: not any(os.path.exists(f"/proc/{pid}") for pid in tree))


def descendants(pid):
    found = [pid]
    for at in found:
        try:
            for task in os.listdir(f"/proc/{at}/task"):
                with open(f"/proc/{at}/task/{task}/children") as file:
                    found += map(int, file.read().split())
        except FileNotFoundError:
            pass
    return found


alone = begin(start, "alone")
if alone.wait(LIMIT) != 0:
    sys.exit(open("alone.said").read())
wanted = results("alone")
job = begin(start, "out")
await_that("no result", lambda: results("out") or job.poll() is not None)
done = 0
for cycle in range(cycles):
    time.sleep(chance.uniform(0, 0.2))
    if job.poll() is not None:
        break
    make = ["oxmpi", "checkpoint", str(job.pid)]
    made = subprocess.run(make, capture_output=True, text=True, timeout=LIMIT)
    while "try again" in made.stderr and job.poll() is None:
        time.sleep(0.01)
        made = subprocess.run(make, capture_output=True, text=True, timeout=LIMIT)
    if made.returncode != 0:
        # It may have come to its end meanwhile.
        time.sleep(0.5)
        if job.poll() is not None or "is ending" in made.stderr:
            break
        sys.exit(made.stderr)
    time.sleep(chance.uniform(0, 0.2))
    lose(job)
    job = begin(["oxmpi", "restart", made.stdout.split("\n")[0], *parameters], "out")
    done += 1
code = job.wait(LIMIT)
if code != 0 or results("out") != wanted:
    sys.exit(f"after {done} restarts: exit code {code}, {len(results('out'))} results of {len(wanted)}\n{open('out.said').read()}")
print(f"restarted {done} times, {len(wanted)} results are right")
