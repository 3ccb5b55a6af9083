"""A broker and members of its group within the process of a test."""

import pytest

import moolib
from rigs.local_members import Member


@pytest.fixture
def address():
    broker = moolib.Broker()
    yield broker.listen("127.0.0.1:0")
    broker.close()


@pytest.fixture
def join(address):
    members = []

    def join(name, *parameters, **options):
        members.append(Member(address, name, *parameters, **options))
        return members[-1]

    yield join
    for member in members:
        member.close()
