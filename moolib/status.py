"""The groups of a running broker, as `python -m moolib.broker --status` shows them."""

from __future__ import annotations

from typing import Any

from moolib.future import RpcError
from moolib.rpc.rpc import Rpc
from moolib.transport import address
from moolib.transport.address import AddressError

STATUS_TIMEOUT = 5.0  # s to wait for the broker


def ask_status(rpc: Rpc, address_: str) -> dict[str, Any]:
    """Return the groups of the broker at an address, by name; `rpc` must be new.

    Raises:
        RpcError: Nobody answers there, or the keys differ.
        AddressError: The address is malformed.
    """
    rpc.set_timeout(STATUS_TIMEOUT)
    try:
        address.check_reachable(address.parse(address_), STATUS_TIMEOUT)
        rpc.connect(address_)
        status: dict[str, Any] = rpc.sync("broker", "broker.status")
        return status
    except AddressError:
        raise
    except RpcError as error:
        raise RpcError(f"no broker answered at {address_}: {error}") from None


def format_status(status: dict[str, Any]) -> str:
    """Return the answer of `broker.status` as text for people."""
    lines = []
    for group, entry in sorted(status.items()):
        members = entry["members"]
        lines.append(f"{group}: sync id {entry['sync_id']}, {len(members)} member{'s' * (len(members) != 1)}")
        for member in members:
            told = [f"last ping {member['last_ping']:.1f} s ago"]
            for accumulator, state in (member.get("accumulators") or {}).items():
                leads = " (leader)" if state["leader"] else ""
                told.insert(0, f"{accumulator} version {state['model_version']}{leads}")
            lines.append(f"  {member['name']}: {', '.join(told)}")
    return "\n".join(lines) or "no groups"
