"""Joining a group: the message when nobody answers."""

from types import SimpleNamespace

import pytest

from agent.cli.overrides import compose
from agent.config import from_omegaconf
from agent.errors import ConfigError
from agent.training.wait_for_group import wait_for_group


@pytest.mark.parametrize(
    ("connect", "message"),
    [
        ("null", "the broker of this process did not answer within connect_timeout=0.01 s"),
        ("127.0.0.1:9", "connect=127.0.0.1:9: no broker answered within 0.01 s"),
    ],
)
def test_who_did_not_answer_is_named(connect, message):
    config = from_omegaconf(compose(f"connect={connect}", "connect_timeout=0.01"))
    nobody = SimpleNamespace(
        connected=False, poll=lambda: None, accumulator=SimpleNamespace(wait=lambda timeout: None)
    )
    rpc = SimpleNamespace(debug_info=lambda: {"refused": None})
    with pytest.raises(ConfigError) as error:
        wait_for_group(nobody, rpc, config, print, lambda: False)
    assert str(error.value).startswith(message)
