"""Nodes on two machines meet, whatever the network is like, and without being told who hosts the store.

The machines are network namespaces (namespaces.py). Ports inside them are nobody else's.
"""

import re
import unittest

from namespaces import Machine, connect
from rendezvous_cli_support import LIMIT_S, QUICK, Joining
from store_support import BINARY

RUN = "run"
PORT = 29400

# Nobody answers there, and who asks waits for minutes: no name may be asked for without need.
NO_ANSWER = "nameserver 10.1.0.77\noptions timeout:30 attempts:2\n"


class TwoMachines(unittest.TestCase):
    def setUp(self):
        self.a = self.enterContext(Machine("node-a"))
        self.b = self.enterContext(Machine("node-b"))

    def node(self, machine, endpoint, *flags, nnodes="2"):
        return self.enterContext(Joining("--rdzv-id", RUN, "--rdzv-endpoint", endpoint, "--nnodes", nnodes, "--stay",
                                         600, *flags, prefix=machine.prefix))

    def addresses(self, machine, endpoint):
        """Of the members by their names, as the machine sees them."""
        shown = machine.do(BINARY, "rendezvous", "show", "--rdzv-id", RUN, "--rdzv-endpoint", endpoint)
        return dict(re.findall(r"^  \d+ +(\S+) +(\S+) +\d+ +regroup", shown, re.M))

    def assert_they_meet(self, endpoint, expected, started=None):
        """Both are in one round, under the expected addresses, and each reaches the workers' store."""
        nodes = started or [self.node(machine, endpoint) for machine in (self.a, self.b)]
        rounds = [node.next_round() for node in nodes]
        self.assertEqual([(r.rank, r.world_size) for r in rounds], [(0, 2), (1, 2)])
        self.assertEqual(self.addresses(self.b, endpoint), expected)
        self.assertEqual({r.address for r in rounds}, {expected["node-a"]})
        host = f"[{rounds[0].address}]" if ":" in rounds[0].address else rounds[0].address
        for machine in (self.a, self.b):
            machine.do(BINARY, "store", "ping", f"{host}:{rounds[0].port}")
        for node in nodes[::-1]:  # The host last.
            node.signal()
            self.assertEqual(node.finish(), 130, node.err_so_far())
        return nodes


class Meeting(TwoMachines):
    def test_the_endpoint_is_on_the_second_network(self):
        connect(self.a, self.b, "first", "10.1.0.1/24", "10.1.0.2/24")
        connect(self.a, self.b, "second", "10.2.0.1/24", "10.2.0.2/24")
        self.assert_they_meet(f"10.2.0.1:{PORT}", {"node-a": "10.2.0.1", "node-b": "10.2.0.2"})

    def test_the_other_node_may_come_first(self):
        connect(self.a, self.b, "first", "10.1.0.1/24", "10.1.0.2/24")
        endpoint = f"10.1.0.1:{PORT}"
        early = self.node(self.b, endpoint)
        early.err.until(rf"^regroup: waiting for the store at {re.escape(endpoint)}: .*gives up in 9m\d\ds \(join_timeout\)")
        self.assert_they_meet(endpoint, {"node-a": "10.1.0.1", "node-b": "10.1.0.2"},
                              started=[self.node(self.a, endpoint), early])

    def test_a_name_without_a_way_back(self):
        connect(self.a, self.b, "first", "10.1.0.1/24", "10.1.0.2/24")
        for machine in (self.a, self.b):
            machine.hosts.write_text("10.1.0.1 node-a\n")
            machine.resolver.write_text(NO_ANSWER)
        self.assert_they_meet(f"node-a:{PORT}", {"node-a": "10.1.0.1", "node-b": "10.1.0.2"})

    def test_a_name_that_means_loopback_to_its_owner(self):
        # As Debian writes it. The name as typed is all that is good for others.
        connect(self.a, self.b, "first", "10.1.0.1/24", "10.1.0.2/24")
        self.a.hosts.write_text("127.0.0.1 localhost\n127.0.1.1 node-a\n")
        self.b.hosts.write_text("127.0.0.1 localhost\n127.0.1.1 node-b\n10.1.0.1 node-a\n")
        self.assert_they_meet(f"node-a:{PORT}", {"node-a": "node-a", "node-b": "10.1.0.2"})

    def test_no_name_service_at_all(self):
        connect(self.a, self.b, "first", "10.1.0.1/24", "10.1.0.2/24")
        self.assert_they_meet(f"10.1.0.1:{PORT}", {"node-a": "10.1.0.1", "node-b": "10.1.0.2"})

    def test_a_name_service_that_never_answers(self):
        connect(self.a, self.b, "first", "10.1.0.1/24", "10.1.0.2/24")
        for machine in (self.a, self.b):
            machine.resolver.write_text(NO_ANSWER)
        self.assert_they_meet(f"10.1.0.1:{PORT}", {"node-a": "10.1.0.1", "node-b": "10.1.0.2"})

    def test_ipv6_alone(self):
        connect(self.a, self.b, "first", "fd00:1::1/64", "fd00:1::2/64")
        for machine in (self.a, self.b):
            machine.do("ip", "addr", "del", "127.0.0.1/8", "dev", "lo")
        self.assert_they_meet(f"[fd00:1::1]:{PORT}", {"node-a": "fd00:1::1", "node-b": "fd00:1::2"})

    def test_a_name_that_is_known_only_later(self):
        connect(self.a, self.b, "first", "10.1.0.1/24", "10.1.0.2/24")
        endpoint = f"meeting-point:{PORT}"  # Neither machine's own name: both have to ask for it.
        nodes = [self.node(machine, endpoint) for machine in (self.a, self.b)]
        for node in nodes:
            node.err.until("^regroup: waiting for the store at meeting-point")
        for machine in (self.a, self.b):
            machine.hosts.write_text("10.1.0.1 meeting-point\n")
        self.assert_they_meet(endpoint, {"node-a": "10.1.0.1", "node-b": "10.1.0.2"}, started=nodes)


class CutOff(TwoMachines):
    def test_a_node_that_is_cut_off_is_dropped_and_comes_back(self):
        connect(self.a, self.b, "first", "10.1.0.1/24", "10.1.0.2/24")
        endpoint = f"10.1.0.1:{PORT}"
        conf = QUICK + ",heartbeat_timeout=1,read_timeout=3"
        a, b = (self.node(machine, endpoint, "--rdzv-conf", conf, nnodes="1:2") for machine in (self.a, self.b))
        self.assertEqual([node.next_round().world_size for node in (a, b)], [2, 2])

        self.b.do("ip", "link", "set", "first", "down")
        a.err.until("a member is gone")
        self.assertEqual(a.next_round().nodes, ["node-a"])
        b.err.until("trying on")

        self.b.do("ip", "link", "set", "first", "up")
        # Both are asked for the round in which they are together again; there may be others before it.
        for node in (a, b):
            while (found := node.next_round(2 * LIMIT_S)).world_size != 2:
                pass
            self.assertEqual(found.nodes, ["node-a", "node-b"])


if __name__ == "__main__":
    unittest.main()
