#!/usr/bin/env python3
"""The package `terrace`: calls on ranks that are threads, and on processes that meet in a store; errors, docs.

usage: python_test.py PACKAGE_DIRECTORY LIBTERRACE [TEST...]

Needs no mpi4py: what needs it is skipped by name.
"""
import array
import doctest
import importlib
import os
import pathlib
import pkgutil
import subprocess
import sys
import tempfile
import time
import unittest

PACKAGE = sys.argv.pop(1)
os.environ["LIBTERRACE"] = sys.argv.pop(1)
sys.path.insert(0, PACKAGE)

import terrace  # noqa: E402


def has(module):
    return importlib.util.find_spec(module) is not None


class Calls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.plan = terrace.plan("package:2 core:2")

    def run_ranks(self, body):
        return terrace.loopback.run(self.plan, body)

    def test_reductions(self):
        def body(comm):
            data, total, part = array.array("i", [comm.rank, 1]), array.array("i", [0, 0]), array.array("i", [0])
            comm.allreduce(data, total)
            comm.allreduce(data, op="max")
            mine = array.array("d", [1])
            comm.allreduce(mine, op=terrace.exact(terrace.premul_sum(comm.rank)))
            comm.reduce_scatter(array.array("i", range(4)), part)
            pair = array.array("i", [0, 0] if comm.rank == 0 else [0])
            comm.reduce_scatter(array.array("i", range(5)), pair, counts=[2, 1, 1, 1])
            rooted = array.array("i", [0])
            comm.reduce(array.array("i", [comm.rank]), rooted, 2, "prod" if comm.rank < 0 else "sum")
            return [*total, *data, *mine, *part, *pair, *rooted]

        ranks = self.run_ranks(body)
        self.assertEqual(ranks[0], [6, 4, 3, 1, 6.0, 0, 0, 4, 0])
        self.assertEqual(ranks[2], [6, 4, 3, 1, 6.0, 8, 12, 6])

    def test_moves(self):
        def body(comm):
            mine, four = array.array("q", [10 + comm.rank]), array.array("q", [0] * 4)
            comm.allgather(mine, four)
            seen = [list(four)]
            comm.allgather(mine, four, counts=[1] * 4)
            comm.alltoall(array.array("q", [10 * comm.rank + r for r in range(4)]), four)
            seen.append(list(four))
            comm.gather(mine, four if comm.rank == 1 else None, 1)
            comm.gather(mine, four if comm.rank == 1 else None, 1, counts=[1] * 4)
            comm.scatter(four if comm.rank == 1 else None, mine, 1)
            comm.scatter(four if comm.rank == 1 else None, mine, 1, counts=[1] * 4)
            seen.append(list(mine))
            comm.broadcast(mine, 3)
            seen.append(list(mine))
            came = comm.alltoallv(array.array("q", range(comm.rank)), [comm.rank, 0, 0, 0], into := array.array("q", [9] * 6), 3)
            seen.append((came, list(into)))
            lengths = comm.gatherv(array.array("q", [1] * comm.rank), into, 0)
            count = comm.scatterv(into, [1, 1, 2, 2], into if comm.rank else array.array("q", [0] * 6), 0)
            comm.barrier()
            return seen, lengths, count

        seen, lengths, count = self.run_ranks(body)[0]
        self.assertEqual(seen, [[10, 11, 12, 13], [0, 10, 20, 30], [10], [13], ([0, 1, 2, 3], [0, 0, 1, 0, 1, 2])])
        self.assertEqual((lengths, count), ([0, 1, 2, 3], 1))

    def test_started_calls_groups_messages_windows_and_parts(self):
        def body(comm):
            data = [array.array("f", [i]) for i in range(3)]
            with comm.group():
                requests = [comm.allreduce_async(d) for d in data]
            for request in requests:
                request.wait()
                self.assertTrue(request.test())
            for start in (lambda: comm.barrier_async(), lambda: comm.broadcast_async(bytearray(3), 1),
                          lambda: comm.allgather_async(b"a", bytearray(4)), lambda: comm.alltoall_async(bytes(4), bytearray(4)),
                          lambda: comm.gather_async(b"a", bytearray(4), 1), lambda: comm.scatter_async(bytes(4), bytearray(1), 1),
                          lambda: comm.reduce_async(b"a", bytearray(1), 1, "max"),
                          lambda: comm.reduce_scatter_async(bytes(4), bytearray(1), "bor")):
                start().wait()
            heard = comm.recv_async(word := bytearray(3))
            comm.send(b"abc", (comm.rank + 1) % 4)
            heard.wait()
            window = comm.allocate(4, "float64")
            window.bytes[:8] = array.array("d", [comm.rank]).tobytes()
            comm.allreduce(window)
            with comm.split(comm.rank % 2) as part, comm.split_by_node() as node:
                sizes = part.size, node.size, comm.split(-1) if comm.rank < 0 else None
            return [d[0] for d in data], bytes(word), heard.received.source, window.bytes.cast("d")[0], sizes[:2]

        self.assertEqual(self.run_ranks(body)[1], ([0, 4, 8], b"abc", 0, 6.0, (2, 4)))

    def test_a_function_is_called_when_a_call_is_complete(self):
        def body(comm):
            told, data = [], array.array("d", [1])
            request = comm.allreduce_async(data)
            request.then(told.append)
            self.assertTrue(request.test())
            comm.barrier()
            comm.barrier()
            return told, data[0]

        self.assertEqual(self.run_ranks(body), [([None], 4.0)] * 4)

    def test_describes_itself(self):
        def body(comm):
            comm.barrier()
            return comm.shape(1 << 20), comm.predicted(1 << 20), repr(comm), comm.statistics()
        shape, predicted, said, statistics = self.run_ranks(body)[3]
        self.assertEqual((statistics["rank"], statistics["calls"][0]["call"]), (3, "barrier"))
        self.assertIn("shared_memory", shape)
        self.assertGreater(predicted, 0)
        self.assertEqual(said, "<terrace.Communicator: rank 3 of 4>")

    @unittest.skipUnless(has("prometheus_client"), "prometheus_client is missing: pip install prometheus_client")
    def test_metrics_are_what_prometheus_reads(self):
        from prometheus_client.parser import text_string_to_metric_families
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "terrace.prom")

            def body(comm):
                for late in range(comm.size):
                    if comm.rank == late:
                        time.sleep(0.02)
                    comm.barrier()
                while not file.exists() or len(found := self.series(file, text_string_to_metric_families)) < 20:
                    time.sleep(0.01)
                comm.barrier()
                return found

            found = terrace.loopback.run(self.plan, body, terrace.Options(metrics=str(file)))[0]
            self.assertEqual({name for name, _ in found}, {
                "terrace_calls_total", "terrace_bytes_total", "terrace_call_seconds_total",
                "terrace_waiting_seconds_total", "terrace_limit_ratio"})
            self.assertEqual({dict(labels)["rank"] for _, labels in found}, {"0", "1", "2", "3"})
            self.assertFalse(file.exists())

    def series(self, file, families):
        samples = [(s.name, tuple(s.labels.items())) for family in families(file.read_text()) for s in family.samples]
        self.assertEqual(len(samples), len(set(samples)))
        return samples

    def test_what_a_rank_raises_comes_out(self):
        def body(comm):
            if comm.rank == 2:
                raise KeyError("mine")
            comm.barrier()
        with self.assertRaises(KeyError):
            self.run_ranks(body)

    def test_wrong_calls_raise_usage_error(self):
        def body(comm):
            one, four = array.array("f", [0]), array.array("f", [0] * 4)
            wrong = {
                "recv has 4 elements, 1 are needed": lambda: comm.allreduce(one, four),
                "the buffers have different types: float32, uint8": lambda: comm.allreduce(one, bytearray(1)),
                "send has 1 elements, which are no 4 equal blocks": lambda: comm.alltoall(one, one),
                "2 counts for 4 ranks": lambda: comm.alltoallv(array.array("f", [0, 0]), [1, 1], four, 1),
                'there is no operation "mean"; there are sum,': lambda: comm.allreduce(one, op="mean"),
                "the buffer is read-only": lambda: comm.allreduce(bytes(4)),
                "a int is no buffer": lambda: comm.allreduce(3),
            }
            for text, call in wrong.items():
                with self.assertRaisesRegex(terrace.usage_error, text):
                    call()
            comm.close()
            with self.assertRaisesRegex(terrace.usage_error, "the communicator is closed"):
                comm.barrier()
        self.run_ranks(body)

    def test_errors_say_where(self):
        with self.assertRaises(terrace.input_error) as raised:
            terrace.Plan("missing.yaml")
        self.assertEqual((raised.exception.file, raised.exception.line), ("missing.yaml", 0))
        self.assertTrue(issubclass(terrace.timeout_error, terrace.error))

    def test_a_log_receives_lines(self):
        lines = []
        terrace.loopback.run(self.plan, lambda comm: comm.barrier(),
                             terrace.Options(log=lambda level, line: lines.append((level, line))))
        self.assertEqual([level for level, _ in lines if level == "info"], ["info"])


RANK = """
import array, os, pathlib, sys, time
import terrace

class Files:
    def __init__(self, folder): self.folder = pathlib.Path(folder)
    def put(self, key, value):
        file = self.folder / key.replace("/", "_")
        file.with_suffix(".%d" % os.getpid()).write_bytes(value)
        file.with_suffix(".%d" % os.getpid()).rename(file)
    def get(self, key):
        file = self.folder / key.replace("/", "_")
        return file.read_bytes() if file.exists() else None
    def remove(self, key): (self.folder / key.replace("/", "_")).unlink(missing_ok=True)

with terrace.create(Files(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])) as comm:
    data = array.array("d", [comm.rank] * 1000)
    comm.allreduce(data)
    part = comm.split(comm.rank % 2)
    comm.barrier()
    print(data[999], part.size)
    part.close()
"""


class Processes(unittest.TestCase):
    def setUp(self):
        if not list(pathlib.Path(os.environ["LIBTERRACE"]).parent.glob("../transport/ucx/terrace-ucx.so")):
            self.skipTest("no UCX here")
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = directory.name

    def start(self, script, *arguments, **environment):
        return subprocess.Popen([sys.executable, "-c", script, *arguments], text=True, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT,
                                env=dict(os.environ, PYTHONPATH=PACKAGE, TERRACE_TIMEOUT="30", **environment))

    def said(self, ranks):
        return [rank.communicate(timeout=100)[0] for rank in ranks]

    def test_meet_in_a_store(self):
        ranks = [self.start(RANK, self.directory, str(r), "3") for r in range(3)]
        self.assertEqual(self.said(ranks), ["3.0 2\n", "3.0 1\n", "3.0 2\n"])

    def test_meet_as_the_environment_says(self):
        script = "import terrace\nwith terrace.create() as c:\n    c.barrier()\n    print(c.rank, c.size)"
        ranks = [self.start(script, TERRACE_BOOTSTRAP=f"file:{self.directory}", TERRACE_RANK=str(r), TERRACE_SIZE="2")
                 for r in range(2)]
        self.assertEqual(self.said(ranks), ["0 2\n", "1 2\n"])

    def test_what_a_store_raises_comes_out(self):
        class Broken:
            def put(self, key, value):
                pass

            def get(self, key):
                raise ConnectionError("gone")

            def remove(self, key):
                pass

        with self.assertRaisesRegex(ConnectionError, "gone"):
            terrace.create(Broken(), 0, 2, options=terrace.Options(timeout=20))

    @unittest.skipUnless(has("mpi4py"), "no mpi4py here")
    def test_over_mpi4py(self):
        script = ("from mpi4py import MPI\nimport array, terrace\n"
                  "with terrace.mpi.create(MPI.COMM_WORLD) as c:\n    a = array.array('d', [c.rank])\n    c.allreduce(a)\n"
                  "    print(c.size, a[0])")
        self.assertEqual(self.said([self.start(script)]), ["1 0.0\n"])


class Documentation(unittest.TestCase):
    def test_docstrings_show_what_happens(self):
        tried = 0
        for module in [terrace, *(importlib.import_module(f"terrace.{m.name}") for m in pkgutil.iter_modules(terrace.__path__)
                                  if m.name not in ("jax", "torch"))]:
            result = doctest.testmod(module, optionflags=doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL)
            self.assertEqual(result.failed, 0, module)
            tried += result.attempted
        self.assertGreater(tried, 8)

    def test_everything_public_is_described(self):
        for name in terrace.__all__:
            self.assertTrue(getattr(terrace, name).__doc__, name)

    @unittest.skipUnless(has("mypy"), "no mypy here")
    def test_types_are_strict(self):
        done = subprocess.run([sys.executable, "-m", "mypy", "--config-file", "pyproject.toml", "--cache-dir", "/dev/null"],
                              cwd=pathlib.Path(PACKAGE).parent, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)


if __name__ == "__main__":
    unittest.main()
