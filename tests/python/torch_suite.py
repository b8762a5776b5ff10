#!/usr/bin/env python3
"""Runs the distributed tests that ship inside torch's wheel on a back end, and compares two runs.

usage: torch_suite.py BACKEND [--as-gloo | --as-mpi] [--ranks N] [--json FILE] [TEST...]
       torch_suite.py --compare FILE FILE...

BACKEND is gloo, terrace or another that torch knows. With --as-gloo Terrace is registered under the name "gloo", as
24 tests are gated on that name; with --as-mpi too, but tests are chosen as for "mpi", on which those of all-to-all on
CPUs are gated. Ranks are forked after torch is imported, which is ten times as fast as starting them.
--compare prints what passes in the first run and in none of the others; exit code 1 if there is any.

Run it with a Python that has torch, numpy and expecttest.
"""
import argparse
import json
import multiprocessing
import os
import sys
import tempfile
import unittest


def parsed():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].split("\n\n")[0], add_help=True)
    parser.add_argument("backend", nargs="?")
    parser.add_argument("tests", nargs="*")
    names = parser.add_mutually_exclusive_group()
    names.add_argument("--as-gloo", action="store_true")
    names.add_argument("--as-mpi", action="store_true")
    parser.add_argument("--ranks", type=int, default=3)
    parser.add_argument("--json")
    parser.add_argument("--compare", nargs="+")
    return parser.parse_intermixed_args()


def compare(files):
    first, *others = (json.load(open(name)) for name in files)
    passing = [{test for test, what in run.items() if what == "pass"} for run in (first, *others)]
    together = set().union(*passing[1:])
    lost = sorted(passing[0] - together)
    for test in lost:
        print(f"{test}: {', '.join(run.get(test, 'not run') for run in others)}")
    print(", ".join(f"{len(passed)} pass in {name}" for passed, name in zip(passing, files)))
    print(f"{len(together)} pass in all but the first together, {len(lost)} are lost")
    return 1 if lost else 0


class Record(unittest.TextTestResult):
    """What came of each test, by name."""

    def __init__(self, *arguments, **more):
        super().__init__(*arguments, **more)
        self.outcomes = {}

    def note(self, test, what):
        self.outcomes[test.id().rpartition(".")[2]] = what

    def addSuccess(self, test):
        super().addSuccess(test)
        self.note(test, "pass")

    def addFailure(self, test, error):
        super().addFailure(test, error)
        self.note(test, "fail")

    def addError(self, test, error):
        super().addError(test, error)
        self.note(test, "fail")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.note(test, f"skip: {reason}")


# Tests that Terrace cannot pass under the name "gloo".
OF_GLOO_ALONE = {"test_ddp_logging_data_cpu": "under the name gloo it asks for the number of Gloo's threads"}


def make_suite(chosen, skipped, as_mpi):
    """torch's tests, with ranks that are forked."""
    from torch.testing._internal.distributed import distributed_test
    from torch.testing._internal.distributed.distributed_test import DistributedTest, TestDistBackend

    if as_mpi:  # "mpi" only chose the tests: a group of this name would use torch's MPI
        distributed_test.BACKEND = os.environ["BACKEND"] = "gloo"

    class ForkedRanks(TestDistBackend, DistributedTest._DistTestBase):
        def setUp(self):
            if self._testMethodName in skipped:
                self.skipTest(skipped[self._testMethodName])
            super().setUp()
            self._start_processes(multiprocessing.get_context("fork").Process)

    names = [n for n in unittest.defaultTestLoader.getTestCaseNames(ForkedRanks) if not chosen or n in chosen]
    return unittest.TestSuite(ForkedRanks(n) for n in names)


def main():
    arguments = parsed()
    if arguments.compare:
        return compare(arguments.compare)
    if not arguments.backend:
        sys.exit(__doc__)
    name = "gloo" if arguments.as_gloo else "mpi" if arguments.as_mpi else arguments.backend
    as_gloo = arguments.as_gloo or arguments.as_mpi
    os.environ.update(BACKEND=name, WORLD_SIZE=str(arguments.ranks))
    with tempfile.TemporaryDirectory() as directory:
        os.environ["TEMP_DIR"] = directory
        import torch
        import torch.distributed as dist
        from torch.testing._internal import common_distributed

        torch.set_num_threads(1)
        if arguments.backend == "terrace":
            import terrace.torch  # noqa: F401
            if as_gloo:
                dist.Backend._plugins["GLOO"] = dist.Backend._plugins["TERRACE"]
                terrace.torch.operations.Operations.backend_name = "gloo"
                # By this name torch would cast Terrace's back end to its own class for Gloo.
                dist.Backend.backend_type_map["gloo"] = dist.Backend.backend_type_map["terrace"]
        for feature in ("gpu", "cuda", "ddp", "subgroup", "plugin"):
            common_distributed.DistTestCases.backend_feature[feature].add(name)
        result = unittest.TextTestRunner(resultclass=Record, verbosity=2).run(
            make_suite(arguments.tests, OF_GLOO_ALONE if as_gloo else {}, arguments.as_mpi))
    outcomes = result.outcomes
    print({what: sum(o.startswith(what) for o in outcomes.values()) for what in ("pass", "fail", "skip")})
    if arguments.json:
        with open(arguments.json, "w") as out:
            json.dump(outcomes, out, indent=1)
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
