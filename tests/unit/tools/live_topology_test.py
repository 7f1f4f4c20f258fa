"""tutti-topo on this machine against lscpu and lstopo: as it is, in a restricted cpuset, and in a network namespace.

Usage: live_topology_test.py TUTTI_TOPO [unittest's options]
"""
import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import unittest
import xml.etree.ElementTree as ElementTree

LSTOPO = next((name for name in ("lstopo-no-graphics", "lstopo") if shutil.which(name)), None)
SKIPPED = 77  # all of it, for CTest
CGROUPS = "/sys/fs/cgroup"


def output_of(*command, inside=()):
    """What a command prints, run by the words of `inside`."""
    return subprocess.run([*inside, *command], capture_output=True, text=True, timeout=60, check=True).stdout


def topo(inside=()):
    return json.loads(output_of(TOPO, "--json", inside=inside))


def numbers(text):
    """{0, 1, 2, 5} for "0-2,5"."""
    found = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


def bits(mask):
    """The same for hwloc's "0x00000001,0x00000003": 32 bits a word, the lowest last."""
    words = [int(word, 16) if word else 0 for word in mask.split(",")]
    value = sum(word << 32 * place for place, word in enumerate(reversed(words)))
    return {bit for bit in range(value.bit_length()) if value >> bit & 1}


def ours(graph):
    """Of tutti-topo's JSON, what lscpu and lstopo have words for, too."""
    return {
        "packages": sorted((sorted(numbers(p["cpus"])), p["cores"]) for p in graph["packages"]),
        "numa": sorted((n["id"], sorted(numbers(n["cpus"])), n["memory_bytes"]) for n in graph["numa"]),
        "caches": sorted((c["level"], c["bytes"], sorted(numbers(c["cpus"]))) for c in graph["caches"] if c["kind"] != "instruction"),
    }


class Lstopo:
    """What lstopo says, CPUs that this process may not use included."""

    def __init__(self, inside=()):
        self.tree = ElementTree.fromstring(output_of(LSTOPO, "--of", "xml", "--disallowed", inside=inside))

    def objects(self, *types):
        return [o for o in self.tree.iter("object") if o.get("type") in types]

    def machine(self):
        """In the words of ours()."""
        caches = [o for o in self.objects("L1Cache", "L2Cache", "L3Cache", "L4Cache") if o.get("cache_type") != "2"]
        return {
            "packages": sorted((sorted(bits(p.get("cpuset"))), sum(o.get("type") == "Core" for o in p.iter("object")))
                               for p in self.objects("Package")),
            "numa": sorted((int(n.get("os_index")), sorted(bits(n.get("cpuset"))), int(n.get("local_memory", 0)))
                           for n in self.objects("NUMANode")),
            "caches": sorted((int(c.get("depth")), int(c.get("cache_size")), sorted(bits(c.get("cpuset")))) for c in caches),
        }

    def allowed(self):
        return bits(self.tree.find("object").get("allowed_cpuset"))

    def network_functions(self):
        """PCI addresses of network controllers."""
        return {o.get("pci_busid") for o in self.objects("PCIDev") if o.get("pci_type", "").startswith("02")}


@contextlib.contextmanager
def cpuset(cpu):
    """Words that run a command in a cpuset of one CPU; a SkipTest where none can be made."""
    parent = os.path.join(CGROUPS, "cpuset")  # version 1
    if not os.path.isdir(parent):
        parent = CGROUPS
        try:
            with open(os.path.join(parent, "cgroup.subtree_control"), encoding="utf-8") as control:
                given = control.read().split()
        except OSError as error:
            raise unittest.SkipTest(f"no cpuset can be made: {error}") from error
        if "cpuset" not in given:
            raise unittest.SkipTest("no cpuset can be made: the root control group hands out no cpusets")
    folder = os.path.join(parent, f"tutti-test-{os.getpid()}")
    try:
        os.mkdir(folder)
    except OSError as error:
        raise unittest.SkipTest(f"no cpuset can be made: {error}") from error
    try:
        for name, value in (("cpuset.cpus", cpu), ("cpuset.mems", 0)):
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(str(value))
        yield ["sh", "-c", f'echo $$ >"{folder}/cgroup.procs" && exec "$@"', "sh"]
    except PermissionError as error:
        raise unittest.SkipTest(f"no cpuset can be made: {error}") from error
    finally:
        os.rmdir(folder)


class Live(unittest.TestCase):
    maxDiff = None

    def expect_lstopo(self, graph, inside=()):
        if LSTOPO is None:
            self.skipTest("lstopo is not installed; it is in Debian's hwloc-nox")
        lstopo = Lstopo(inside)
        self.assertEqual(ours(graph), lstopo.machine())
        self.assertEqual({nic["pci"] for nic in graph["nics"] if nic["pci"]}, lstopo.network_functions())
        return lstopo

    def expect_lscpu(self, graph, inside=()):
        if not shutil.which("lscpu"):
            self.skipTest("lscpu is not installed")
        rows = [line.split(",") for line in output_of("lscpu", "-p=CPU,CORE,SOCKET,NODE", inside=inside).splitlines()
                if not line.startswith("#")]
        self.assertEqual(set().union(*(numbers(p["cpus"]) for p in graph["packages"])), {int(row[0]) for row in rows})
        self.assertEqual(sum(p["cores"] for p in graph["packages"]), len({row[1] for row in rows}))
        for package in graph["packages"]:
            sockets = {row[2] for row in rows if int(row[0]) in numbers(package["cpus"])}
            self.assertEqual(len(sockets), 1, f"package {package['id']}")
        for node in graph["numa"]:
            # Without a word of nodes all is one; a node without CPUs (memory alone) is in no row.
            told = {int(row[0]) for row in rows if row[3] == "" or int(row[3]) == node["id"]}
            self.assertEqual(numbers(node["cpus"]), told, f"node {node['id']}")
        fields = {f["field"].rstrip(":"): f["data"] for f in json.loads(output_of("lscpu", "-J", inside=inside))["lscpu"]}
        if "Socket(s)" in fields:
            self.assertEqual(len(graph["packages"]), int(fields["Socket(s)"]))
        if "Model name" in fields and fields["Model name"] != "-":
            self.assertEqual({p["name"].strip() for p in graph["packages"]}, {fields["Model name"].strip()})

    def test_as_it_is(self):
        graph = topo()
        self.assertEqual(numbers(graph["cpus"]["allowed"]), os.sched_getaffinity(0))
        interfaces = {name for nic in graph["nics"] for name in nic["interfaces"]}
        hardware = {name for name in os.listdir("/sys/class/net") if os.path.exists(f"/sys/class/net/{name}/device")}
        self.assertEqual(interfaces, hardware & {name for _, name in socket.if_nameindex()})
        self.expect_lscpu(graph)
        lstopo = self.expect_lstopo(graph)
        self.assertLessEqual(numbers(graph["cpus"]["allowed"]), lstopo.allowed())

    def test_under_an_affinity_of_one_cpu(self):
        cpu = max(os.sched_getaffinity(0))
        inside = ["taskset", "-c", str(cpu)]
        if not shutil.which("taskset"):
            self.skipTest("taskset is not installed; it is in util-linux")
        graph = topo(inside)
        self.assertEqual(numbers(graph["cpus"]["allowed"]), {cpu})
        self.assertEqual(graph["cpus"]["effective"], 1)
        self.assertEqual(ours(graph), ours(topo()), "the machine is the same, whoever looks")
        self.expect_lscpu(graph, inside)
        self.expect_lstopo(graph, inside)

    def test_in_a_cpuset_of_one_cpu(self):
        cpu = max(os.sched_getaffinity(0))
        with cpuset(cpu) as inside:
            graph = topo(inside)
            self.assertEqual(numbers(graph["cpus"]["allowed"]), {cpu})
            self.assertEqual(graph["cpus"]["effective"], 1)
            self.assertEqual(ours(graph), ours(topo()), "the machine is the same, whoever looks")
            self.expect_lscpu(graph, inside)
            self.assertEqual(self.expect_lstopo(graph, inside).allowed(), {cpu})

    def test_in_a_network_namespace_of_its_own(self):
        # With the new namespace's /sys as well, if that may be mounted, and without.
        mount = 'mount -t sysfs none /sys && exec "$@"'
        for inside in (["unshare", "-n"], ["unshare", "-n", "-m", "sh", "-c", mount, "sh"]):
            with self.subTest(" ".join(inside)):
                if subprocess.run([*inside, "true"], capture_output=True, check=False).returncode != 0:
                    self.skipTest(f"this user may not run {' '.join(inside[:3])}")
                graph = topo(inside)
                self.assertEqual([name for nic in graph["nics"] for name in nic["interfaces"]], [], "they are not there")
                # What is on PCI is still there, as lstopo has it, without the name and the speed of an interface elsewhere.
                for nic in graph["nics"]:
                    self.assertTrue(nic["verbs"] or (nic["name"] == nic["pci"] and nic["speed_Gbps"] is None), nic)
                text = output_of(TOPO, "--text", inside=inside)
                for _, name in socket.if_nameindex():
                    self.assertNotIn(f" {name},", text)
                self.expect_lscpu(graph, inside)
                self.expect_lstopo(graph, inside)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    TOPO = sys.argv.pop(1)
    ran = unittest.main(verbosity=2, exit=False).result
    if not ran.wasSuccessful():
        sys.exit(1)
    sys.exit(SKIPPED if len(ran.skipped) >= ran.testsRun else 0)
