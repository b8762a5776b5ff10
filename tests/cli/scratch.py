"""Base of the tests of commands: a temporary directory with a cluster file."""
import importlib.machinery
import importlib.util
import pathlib
import tempfile
import unittest


def load(script):
    """Returns a command's script as a module."""
    loader = importlib.machinery.SourceFileLoader(script.name, str(script))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(script.name, loader))
    loader.exec_module(module)
    return module


def cluster(name, node, core):
    """Returns the text of a cluster file of two levels."""
    return f"""\
terrace_topology: 1
name: {name}
levels:
  - {{name: node, size: {node}, fabric: shm, bandwidth: 10 GB/s, latency: 0.5 us}}
  - {{name: core, size: {core}, fabric: ethernet, bandwidth: 1 Gbit/s, latency: 30 us}}
"""


def uneven(tree):
    """Returns the text of a cluster file of three levels with this tree."""
    return f"""\
terrace_topology: 1
name: uneven
levels:
  - {{name: node, fabric: shm, bandwidth: 10 GB/s, latency: 0.5 us}}
  - {{name: rack, fabric: ethernet, bandwidth: 1 Gbit/s, latency: 30 us}}
  - {{name: core, fabric: ethernet, bandwidth: 500 Mbit/s, latency: 40 us}}
tree: {tree}
"""


class Scratch(unittest.TestCase):
    CLUSTER = cluster("pair", 2, 2)

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        self.write("cluster.yaml", self.CLUSTER)

    def write(self, name, text):
        (self.directory / name).write_text(text)

    def read(self, name):
        return (self.directory / name).read_text()
