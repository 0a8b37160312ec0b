"""Runs one module of mpi4py's test suite in this rank, and writes down what comes of each test, a line of JSON each.

    mpirun -n N python recorder.py SUITE RECORDS WITNESS DONE MODULE

SUITE is the directory of the tests; the rank's lines go to RECORDS/N.json as they come about, so that they are there
after a crash. DONE is a file with the names of the tests that are not to be run (again). WITNESS is the library that
knows which MPI functions have answered MPI_ERR_UNSUPPORTED_OPERATION: many tests take that for a reason to be skipped,
or to be content, so nobody may be asked but the function itself.

The lines: the names of all tests ("plan"); a test begins; it ends, with a verdict, its text, and the missing functions.
"""

import ctypes
import faulthandler
import json
import os
import pathlib
import sys
import time
import traceback
import unittest

# A process that a test has spawned imports this file, too, without arguments: it has nothing to record.
suite, records, witness, done, module = sys.argv[1:6] if __name__ == "__main__" else [None] * 5
# Seconds in one test after which this rank writes down where it is. Whoever started it has a little more patience.
SLOW = float(os.environ.get("CONFORMANCE_SLOW_SECONDS", "60"))
# Exit code of a job whose ranks went different ways in a failing test.
OUT_OF_STEP = 86
BAD = ("failure", "error")

if __name__ == "__main__":
    # Before MPI: then the calls of mpi4py go through it.
    witness = ctypes.CDLL(witness, mode=ctypes.RTLD_GLOBAL)
    sys.path.insert(0, suite)
    sys.dont_write_bytecode = True
    import main
else:
    # What it is to do comes by name, from the modules of the suite.
    sys.path.insert(0, os.environ["CONFORMANCE_SUITE"])


def missing():
    """The functions that have answered so since the last question."""
    room = ctypes.create_string_buffer(65536)
    witness.witness_take(room, len(room))
    return room.value.decode().split()


class Record:
    """The lines of this rank, and how far the others are."""

    def __init__(self):
        from mpi4py import MPI

        self.rank, self.size = MPI.COMM_WORLD.Get_rank(), MPI.COMM_WORLD.Get_size()
        self.lines = self.path(self.rank, "json").open("w", buffering=1)
        self.stacks = self.path(self.rank, "stacks").open("w")
        faulthandler.enable(self.stacks)

    def path(self, rank, kind):
        return pathlib.Path(records, f"{rank}.{kind}")

    def write(self, **line):
        self.lines.write(json.dumps(line) + "\n")

    def verdict_of(self, rank, test):
        """How a test ended in a rank, if it has."""
        try:
            text = self.path(rank, "json").read_text()
        except FileNotFoundError:
            return None
        for line in text.splitlines(keepends=True):
            # The last line may still be in the making.
            if line.endswith("\n"):
                line = json.loads(line)
                if line.get("end") == test:
                    return line["verdict"]
        return None

    def meet(self, test):
        """Waits after a test that failed here until all ranks have ended it. Those who end it in peace go on; if there
        are any, the ranks are no longer in step, and nothing that follows would mean a thing."""
        for rank in range(self.size):
            while (verdict := self.verdict_of(rank, test)) is None:
                time.sleep(0.005)
            if verdict not in BAD:
                self.write(out_of_step=test)
                os._exit(OUT_OF_STEP)


class Result(unittest.TestResult):
    """Writes each verdict when it is final."""

    def __init__(self, record, plan):
        super().__init__()
        self.record, self.plan = record, plan
        self.clear()

    def clear(self):
        self.running, self.verdict, self.text = None, "ok", ""

    def startTest(self, test):
        super().startTest(test)
        self.clear()
        self.running = test.id()
        self.begin = self.news = time.monotonic()
        self.record.write(start=self.running)
        faulthandler.dump_traceback_later(SLOW, file=self.record.stacks)

    def stopTest(self, test):
        super().stopTest(test)
        faulthandler.cancel_dump_traceback_later()
        if self.running is not None:
            self.end(self.running, self.verdict, self.text, time.monotonic() - self.begin)
            running, verdict = self.running, self.verdict
            self.clear()
            if verdict in BAD:
                self.record.meet(running)

    def end(self, test, verdict, text, seconds=0.0):
        names = missing()
        self.record.write(end=test, verdict=verdict, text=text, missing=names, seconds=seconds)

    def judge(self, test, verdict, story):
        if self.running is not None:
            # Subtests have several verdicts, thousands now and then: the first bad one counts.
            if self.verdict not in BAD:
                self.verdict, self.text = verdict, story()
            return
        text = story()
        # Outside of tests: a test that does not even start, or what is done once for a whole class or module.
        name = test.id()
        if name in self.plan:
            self.end(name, verdict, text)
            return
        scope = name.partition("(")[2].rstrip(")")
        names = missing()
        for one in self.plan:
            if one.startswith(scope + "."):
                self.record.write(end=one, verdict=verdict, text=f"{name}: {text}", missing=names, seconds=0.0)

    def wasSuccessful(self):
        # The records have the verdicts. An exit code other than 0 shall mean that the job broke.
        return True

    def told(self, err):
        return lambda: "".join(traceback.format_exception(*err))

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.judge(test, "failure", self.told(err))

    def addError(self, test, err):
        super().addError(test, err)
        self.judge(test, "error", self.told(err))

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        # A test of many parts is not one that hangs.
        if (now := time.monotonic()) > self.news + 1:
            self.news = now
            self.record.write(alive=now)
            faulthandler.dump_traceback_later(SLOW, file=self.record.stacks)
        if err is not None:
            bad = "failure" if issubclass(err[0], test.failureException) else "error"
            self.judge(test, bad, self.told(err))

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.judge(test, "skip", lambda: reason)

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self.judge(test, "failure", lambda: "unexpected success")


class Runner:
    """Runs what is left of the suite that unittest has found."""

    def run(self, tests):
        record = Record()
        known = set(pathlib.Path(done).read_text().split("\n"))
        todo = [test for test in flat(tests) if test.id() not in known]
        result = Result(record, [test.id() for test in todo])
        record.write(plan=result.plan)
        # What mpi4py and the module tried while they were imported.
        if names := missing():
            record.write(end=f"{module}.(import)", verdict="ok", text="", missing=names, seconds=0.0)
        unittest.TestSuite(todo).run(result)
        record.write(finished=True)
        return result


def flat(tests):
    for test in tests:
        if isinstance(test, unittest.TestSuite):
            yield from flat(test)
        else:
            yield test


if __name__ == "__main__":
    pattern = rf"^{module}\.py$"
    main.main(module=None, argv=["main.py", "-i", pattern], testRunner=Runner())
