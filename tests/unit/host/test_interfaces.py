"""interfaces: the kernel's dump of the interfaces here, compared with /proc and /sys."""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

from exporter.host import interfaces, netlink
from tests.support.patience import PATIENCE_SECONDS


class TestInterfaces:
    """RTM_GETLINK."""

    def test_names_and_numbers_are_those_of_sysfs(self) -> None:
        """The loopback has no kind."""
        with closing(netlink.route_socket()) as one:
            found = list(interfaces.interfaces(one, time.monotonic() + PATIENCE_SECONDS))

        assert {link.name: link.number for link in found} == {
            path.name: int((path / "ifindex").read_text()) for path in Path("/sys/class/net").iterdir() if path.is_dir()
        }
        assert {link.kind for link in found if link.name == "lo"} == {""}


class TestQueues:
    """RTM_GETQDISC."""

    def test_every_interface_has_at_most_one_outgoing_root_queue(self) -> None:
        with closing(netlink.route_socket()) as one:
            numbers = {link.number for link in interfaces.interfaces(one, time.monotonic() + PATIENCE_SECONDS)}
        with closing(netlink.route_socket()) as one:
            sent = [
                queue.number
                for queue in interfaces.queues(one, time.monotonic() + PATIENCE_SECONDS)
                if not queue.is_received
            ]

        assert len(sent) == len(set(sent))
        assert set(sent) <= numbers


class TestImport:
    def test_only_a_third_of_pyroute2_is_imported(self) -> None:
        """Not its sockets, its database, its other protocols."""
        script = (
            "import sys, time; from exporter.host import interfaces, netlink; one = netlink.route_socket();"
            "list(interfaces.interfaces(one, time.monotonic() + 10));"
            "print(*(name for name in sys.modules if name.startswith('pyroute2.')))"
        )
        done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
        imported = done.stdout.split()

        assert "pyroute2.netlink.rtnl.ifinfmsg" in imported
        assert not [name for name in imported if name.startswith(("pyroute2.ndb", "pyroute2.iproute", "pyroute2.dhcp"))]
