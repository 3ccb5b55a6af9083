"""The broker: the one address that all peers know. It tells the members of each group who they are.

`python -m moolib.broker [ADDRESS]` serves any number of groups. It sees only names, addresses, pings and
the few hundred bytes with which the members of an epoch find each other; gradients never pass through it,
and it never imports torch. `moolib.group.membership` has the rules. The messages, all one-way except
`broker.status`:

| to the broker | |
|---|---|
| `broker.join` | group, sync id and roster of the sender's epoch, sort order, time-out, identity |
| `broker.ping` | group, sync id, status |
| `broker.leave` | group |
| `broker.rendezvous` | group, sync id, key, value: relayed to the other members, in the current epoch only |
| `broker.report` | group, sync id: a reduction of that epoch failed |
| `broker.status` | -> {group: {"sync_id", "members": [{"name", "last_ping", "accumulators"}]}} |

| from the broker | |
|---|---|
| `group.epoch/GROUP` | sync id, roster |
| `group.rendezvous/GROUP` | sync id, key, value |
| `group.refused/GROUP` | member, accumulator, description: that member of the group has a different model |
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import signal
import sys
import threading
import time
from typing import Any

from moolib import output
from moolib.future import RpcError
from moolib.group.membership import Member, Membership
from moolib.limits import MAX_GROUP_NAME, MAX_IDENTITY
from moolib.log import set_log_level
from moolib.rpc.rpc import Rpc
from moolib.status import ask_status as ask_status
from moolib.status import format_status as format_status
from moolib.transport.address import AddressError
from moolib.weak import repeat, weak

DEFAULT_ADDRESS = "0.0.0.0:4431"
CHECK_INTERVAL = 0.05  # s between two checks for missing pings
UPDATE_INTERVAL = 0.25  # s between two calls of `update` in `main`
MAX_TIMEOUT = 3600.0  # s that a member may ask for
MAX_RENDEZVOUS = 1 << 16  # bytes of one relayed value; gloo's have a few hundred
MAX_MESSAGE = 1 << 20  # bytes; the largest legitimate message is an identity
MAX_STATUS = 16  # accumulators of a member that are shown
EXAMPLES = """\
examples:
  python -m moolib.broker                              # listens at 0.0.0.0:4431
  python -m moolib.broker 127.0.0.1:0                  # this machine only, any free port
  python -m moolib.broker --key-file key.txt           # peers need the same key
  python -m moolib.broker --status IP:4431             # the groups and their members; --json for programs"""
ENDING = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


class Broker:
    """Keeps the membership of all groups.

    Args:
        rpc: The `Rpc` to serve through; without one, an own `Rpc` named "broker" is made.
    """

    def __init__(self, rpc: Rpc | None = None) -> None:
        if rpc is None:
            rpc = Rpc(max_message=MAX_MESSAGE)
            rpc.set_name("broker")
        self._rpc = rpc
        self._groups: dict[str, Membership] = {}
        self._checked = time.monotonic()
        rpc.messages.define("broker.join", weak(self._join))
        rpc.messages.define("broker.ping", weak(self._ping))
        rpc.messages.define("broker.leave", weak(self._leave))
        rpc.messages.define("broker.rendezvous", weak(self._rendezvous))
        rpc.messages.define("broker.report", weak(self._report))
        rpc.messages.define("broker.status", weak(self._status))
        rpc.messages.on_peer_change(weak(self._on_peer_change))
        repeat(rpc.messages.call_later, self._check)

    def set_name(self, name: str) -> None:
        """Set the name by which peers know the broker; they expect "broker"."""
        self._rpc.set_name(name)

    def listen(self, address: str) -> str:
        """Accept peers at `address`; return it with its actual port.

        Raises:
            RuntimeError: The address is malformed or taken.
        """
        return self._rpc.listen(address)

    def members(self) -> dict[str, list[str]]:
        """Return the names of the members of each group."""
        return {group: list(members.members) for group, members in list(self._groups.items())}

    def update(self) -> None:
        """Do nothing; kept for programs that call it in a loop. The broker works on its own thread."""

    def close(self) -> None:
        """Close the broker's `Rpc`."""
        self._rpc.close()

    # The rest runs on the loop thread. Arguments come from the network and are checked by conversion.

    def _join(
        self,
        peer: str,
        group: str,
        sync_id: int,
        roster: list[Any],
        order: int,
        timeout: float,
        identity: dict[Any, Any],
    ) -> None:
        texts = {str(key): str(text) for key, text in identity.items()}
        if len(group) > MAX_GROUP_NAME or sum(map(len, texts.values())) > MAX_IDENTITY:
            raise ValueError(f"the identity of {peer} in {group[:MAX_GROUP_NAME]} is too long")
        members = self._groups.get(group) or self._new_group(str(group))
        limit = min(max(CHECK_INTERVAL, float(timeout)), MAX_TIMEOUT)  # a nan becomes CHECK_INTERVAL
        conflict = members.join(peer, int(sync_id), [str(name) for name in roster], int(order), limit, texts)
        if conflict:
            reason = (conflict.member, conflict.accumulator, conflict.description)
            self._rpc.messages.send(peer, f"group.refused/{group}", *reason)

    def _new_group(self, group: str) -> Membership:
        push = functools.partial(weak(self._push), group)
        members = Membership(group, push, self._rpc.messages.call_later, time.monotonic)
        self._groups[group] = members
        return members

    def _push(self, group: str, sync_id: int, roster: list[str]) -> None:
        for name in roster:
            self._rpc.messages.send(name, f"group.epoch/{group}", sync_id, roster)

    def _ping(self, peer: str, group: str, sync_id: int, status: dict[Any, Any]) -> None:
        members = self._groups.get(group)
        told = {
            str(name)[:MAX_GROUP_NAME]: {
                "model_version": int(s["model_version"]),
                "leader": bool(s["leader"]),
            }
            for name, s in itertools.islice(status.items(), MAX_STATUS)
        }
        known = members is not None and members.ping(peer, sync_id, told)
        if not known:
            sync_id, roster = (members.sync_id, members.roster) if members else (0, [])
            self._rpc.messages.send(peer, f"group.epoch/{group}", sync_id, roster)

    def _leave(self, peer: str, group: str) -> None:
        if group in self._groups:
            self._groups[group].leave(peer, "left")

    def _rendezvous(self, peer: str, group: str, sync_id: int, key: str, value: bytes) -> None:
        members = self._groups.get(group)
        if members and members.sync_id == sync_id and peer in members.roster and len(value) <= MAX_RENDEZVOUS:
            for name in members.roster:
                if name != peer:
                    self._rpc.messages.send(name, f"group.rendezvous/{group}", sync_id, key, value)

    def _report(self, peer: str, group: str, sync_id: int) -> None:
        if group in self._groups:
            self._groups[group].report(peer, sync_id)

    def _on_peer_change(self, peer: str, connected: bool) -> None:
        if not connected:
            for members in self._groups.values():
                members.leave(peer, "lost its connection")

    def _check(self) -> float:
        """Drop the members that stopped pinging, and empty groups."""
        late = time.monotonic() - self._checked - CHECK_INTERVAL
        self._checked = time.monotonic()
        for group, members in list(self._groups.items()):
            if late > 10 * CHECK_INTERVAL:
                members.forgive(late)
            members.expire()
            if members.empty() and not members.roster:
                del self._groups[group]
        return CHECK_INTERVAL

    def _status(self, peer: str) -> dict[str, Any]:
        return {
            group: {
                "sync_id": members.sync_id,
                "members": [
                    self._describe(members.members[name])
                    for name in members.roster
                    if name in members.members
                ],
            }
            for group, members in self._groups.items()
        }

    def _describe(self, member: Member) -> dict[str, Any]:
        ago = time.monotonic() - member.last_ping
        return {"name": member.name, "last_ping": ago, "accumulators": member.status}


def main(arguments: list[str] | None = None) -> None:
    """Serve until Ctrl-C, SIGTERM or SIGHUP; with `--status`, ask a running broker instead."""
    parser = argparse.ArgumentParser(
        prog="python -m moolib.broker",
        description="Tell the peers of each group who the members are; one broker serves many groups.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "address", nargs="?", default=DEFAULT_ADDRESS, help="where to listen (default: %(default)s)"
    )
    parser.add_argument("--key-file", help="file with the key that all peers share")
    parser.add_argument("--tls-cert", help="PEM file with the broker's certificate")
    parser.add_argument("--tls-key", help="PEM file with the certificate's private key")
    parser.add_argument("--status", metavar="ADDRESS", help="print the groups of the broker at ADDRESS")
    parser.add_argument("--json", action="store_true", help="with --status: print JSON, for programs")
    with output.tolerated():
        try:
            options = parser.parse_args(arguments)
            security = {name: vars(options)[name] for name in ("key_file", "tls_cert", "tls_key")}
            if options.status:
                _show_status(Rpc(**security), options.status, options.json)
            else:
                _serve(Rpc(**security, max_message=MAX_MESSAGE), options.address)
        except BrokenPipeError:
            pass  # a reader who leaves has read enough
        except (RpcError, OSError, ValueError) as error:
            output.say(f"broker: {error}", sys.stderr)
            sys.exit(2 if isinstance(error, AddressError) else 1)
        except KeyboardInterrupt:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # the program is ending
            sys.exit(128 + signal.SIGINT)


def _show_status(rpc: Rpc, address: str, as_json: bool) -> None:
    set_log_level("none")  # errors are reported once, by `main`
    status = ask_status(rpc, address)
    if error := output.say(json.dumps(status) if as_json else format_status(status)):
        raise error


def _serve(rpc: Rpc, address: str) -> None:
    set_log_level("info")
    rpc.set_name("broker")
    broker = Broker(rpc)
    ended = threading.Event()

    def end(number: int, _: object) -> None:
        ended.set()
        signal.signal(number, signal.SIG_DFL)  # a second one ends the program at once

    for number in ENDING:
        if number == signal.SIGTERM or signal.getsignal(number) != signal.SIG_IGN:  # as by nohup
            signal.signal(number, end)
    output.say(f"Broker listening at {broker.listen(address)}")
    while not ended.wait(UPDATE_INTERVAL):
        broker.update()
    broker.close()


if __name__ == "__main__":
    main()
