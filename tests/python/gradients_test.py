#!/usr/bin/env python3
"""Gradients from Python, on ranks that are threads: dense, sparse, dropped, local, weighted, joined.

usage: gradients_test.py PACKAGE_DIRECTORY LIBTERRACE [TEST...]
"""
import array
import os
import sys
import unittest

PACKAGE = sys.argv.pop(1)
os.environ["LIBTERRACE"] = sys.argv.pop(1)
sys.path.insert(0, PACKAGE)

import terrace  # noqa: E402
from terrace import GradientReducer, Parameter  # noqa: E402


class Gradients(unittest.TestCase):
    def run_ranks(self, body):
        return terrace.loopback.run(terrace.plan("package:2 core:2"), body)

    def test_of_the_caller_and_in_buckets(self):
        def body(comm):
            mine = array.array("f", [comm.rank, 1, 2])
            reducer = GradientReducer(comm, [("weight", mine), Parameter("bias", count=2, type="float64")], op="sum",
                                      bucket_bytes=0)
            reducer.gradient(1).cast("d")[1] = comm.rank
            reducer.ready(1)
            reducer.ready(0)
            reducer.poll()
            reducer.finish()
            bias = reducer.gradient(1).cast("d")[1]
            other = array.array("f", [1, 1, 1])
            reducer.set_gradient(0, other)
            reducer.drop([1])
            reducer.ready(0)
            reducer.finish()
            state = {"mean": array.array("q", [comm.rank])}
            reducer.broadcast(state, 3)
            times = reducer.statistics()
            self.assertGreaterEqual(times.exposed, times.waiting)
            self.assertEqual(reducer.bucket_of(0) + reducer.bucket_of(1), 1)
            return list(mine), bias, other[0], state["mean"][0], reducer.buckets, reducer.rebuilds >= 0

        self.assertEqual(self.run_ranks(body)[2], ([6, 4, 8], 6, 4, 3, 2, True))

    def test_sparse(self):
        def body(comm):
            reducer = GradientReducer(comm, [Parameter("words", count=20, row=2)], op="sum")
            reducer.ready_rows(0, [9, comm.rank], array.array("f", [1, 2, 3, 4]))
            reducer.finish()
            rows = reducer.rows(0)
            first = list(rows.numbers), list(rows.values.cast("f"))[-2:]
            reducer.ready_rows(0, array.array("q", [4]), array.array("f", [1, 1]))
            reducer.finish()
            with self.assertRaisesRegex(terrace.usage_error, "3 values for 1 rows of 2"):
                reducer.ready_rows(0, [4], array.array("f", [1, 1, 1]))
            return first, list(reducer.rows(0).values.cast("f"))

        self.assertEqual(self.run_ranks(body)[3], (([0, 1, 2, 3, 9], [4, 8]), [4, 4]))

    def test_local_iterations(self):
        def body(comm):
            data = array.array("d", [1])
            reducer = GradientReducer(comm, [("a", data)])
            with reducer.no_sync():
                reducer.ready(0)
                reducer.finish()
                local, data[0] = data[0], data[0] + comm.rank
            reducer.ready(0)
            reducer.finish()
            return local, data[0]

        self.assertEqual(self.run_ranks(body), [(1, 2.5)] * 4)

    def test_weights_and_ranks_that_join(self):
        def body(comm):
            data, steps = array.array("d", [comm.rank]), []
            reducer = GradientReducer(comm, [("a", data)], weighted=True, unused="find")
            reducer.set_weight(1 + comm.rank)
            for _ in range(comm.rank):
                data[0] = comm.rank
                reducer.ready(0)
                reducer.finish()
            reducer.join(lambda: steps.append(data[0]))
            return len(steps), data[0]

        self.assertEqual(self.run_ranks(body), [(3, 3), (2, 3), (1, 3), (0, 3)])

    def test_unused_parameters(self):
        def body(comm):
            a, b = array.array("d", [4]), array.array("d", [4])
            reducer = GradientReducer(comm, [("a", a), ("b", b)], unused="find")
            reducer.forward_done([0] if comm.rank == 0 else [])
            if comm.rank == 0:
                reducer.ready(0)
            reducer.finish()
            seen = a[0], b[0]
            strict = GradientReducer(comm, [("a", a), ("b", b)])
            strict.ready(0)
            with self.assertRaisesRegex(terrace.usage_error, 'no gradient of parameter 1, "b"'):
                strict.finish()
            return seen

        self.assertEqual(self.run_ranks(body)[0], (1, 4))

    def test_wrong_lists_are_refused(self):
        def body(comm):
            with self.assertRaisesRegex(terrace.usage_error, "avg"):
                GradientReducer(comm, [("a", array.array("d", [1]))], op="max")
            with self.assertRaisesRegex(terrace.usage_error, 'no way to treat unused ones "never"'):
                GradientReducer(comm, [], unused="never")
            with self.assertRaisesRegex(terrace.usage_error, "differ|other"):
                GradientReducer(comm, [Parameter("a", count=comm.rank)])
            reducer = GradientReducer(comm, [("a", array.array("d", [1]))])
            with self.assertRaisesRegex(terrace.usage_error, '"a" has another count or type'):
                reducer.set_gradient(0, array.array("f", [1]))
            return True

        self.assertEqual(self.run_ranks(body), [True] * 4)

    def test_what_after_each_raises_comes_out(self):
        def body(comm):
            data = array.array("d", [1])
            reducer = GradientReducer(comm, [("a", data)], weighted=True)
            if comm.rank == 0:
                reducer.join(lambda: {}["mine"])
            else:
                reducer.ready(0)
                reducer.finish()

        with self.assertRaises(KeyError):
            self.run_ranks(body)

    def test_rounding_errors_are_kept(self):
        def body(comm):
            data, lost = array.array("f", [comm.rank]), array.array("f", [0])
            comm.allreduce_keeping_errors(data, data, lost).wait()
            return data[0], lost[0]

        self.assertEqual(self.run_ranks(body)[1], (6, 0))


if __name__ == "__main__":
    unittest.main()
