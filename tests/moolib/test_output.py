"""`python -m moolib.broker` when its output fails, and when signals end it."""

import os
import signal
import socket
import subprocess
import sys

import pytest

from moolib.broker import main
from rigs.local_members import Member, gather
from rigs.processes import Broker, Process, environment

COMMAND = [sys.executable, "-m", "moolib.broker"]
REFUSED = "broker: no broker answered at 127.0.0.1:1: connection refused\n"


@pytest.fixture
def broker():
    broker = Broker()
    yield broker
    broker.kill()


def interruptible():
    """Undo what a shell does to programs in the background."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    "arguments", [["--help"], ["--status", "ADDRESS"], ["--status", "ADDRESS", "--json"]]
)
def test_nobody_reads_the_output(broker, arguments, unbuffered):
    arguments = [broker.address if argument == "ADDRESS" else argument for argument in arguments]
    reader, writer = os.pipe()
    os.close(reader)
    child = subprocess.run(
        [*COMMAND, *arguments],
        stdout=writer,
        stderr=subprocess.PIPE,
        env=environment(PYTHONUNBUFFERED=unbuffered),
        timeout=60,
    )
    os.close(writer)
    assert (child.returncode, child.stderr) == (0, b"")


def test_the_output_cannot_be_written(broker):
    with open("/dev/full", "w") as full:
        for arguments, line in (
            (["--help"], b""),
            (["--status", broker.address], b"No space left on device"),
        ):
            child = subprocess.run([*COMMAND, *arguments], stdout=full, stderr=subprocess.PIPE, timeout=60)
            assert line in child.stderr and child.stderr.count(b"\n") == bool(line)
            assert child.returncode == bool(line)
        child = subprocess.run([*COMMAND, "--status", "127.0.0.1:1"], stdout=full, stderr=full, timeout=60)
        assert child.returncode == 1


@pytest.mark.parametrize("encoding", ["ascii", "iso8859-15", "utf-8"])
def test_names_that_the_encoding_lacks(broker, encoding):
    name = "Müller → \udce9"
    member = Member(broker.address, name)
    gather([member])
    child = subprocess.run(
        [*COMMAND, "--status", broker.address],
        capture_output=True,
        env=environment(PYTHONIOENCODING=encoding),
        timeout=60,
    )
    assert (child.returncode, child.stderr) == (0, b"")
    assert name.encode(encoding, "backslashreplace") in child.stdout
    member.close()


def test_a_broker_serves_on_when_its_output_fails():
    reader, writer = os.pipe()
    child = subprocess.Popen([*COMMAND, "127.0.0.1:0"], stdout=writer, stderr=writer, env=environment())
    os.close(writer)
    with os.fdopen(reader) as lines:
        address = lines.readline().removeprefix("Broker listening at ").strip()
    for name in "ab":  # each is logged
        member = Member(address, name)
        gather([member])
        member.close()
    child.terminate()
    assert child.wait(60) == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_end_a_broker(number):
    broker = Broker(preexec_fn=interruptible)
    broker.signal(number)
    assert broker.wait() == 0
    assert broker.errors == "" and broker.lines == [f"Broker listening at {broker.address}"]


def test_a_broker_survives_its_terminal_if_asked_to():
    broker = Broker(preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))  # as by nohup
    broker.signal(signal.SIGHUP)
    assert main(["--status", broker.address]) is None
    assert broker.end() == 0


def test_status_is_interrupted():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        asking = Process("-m", "moolib.broker", "--status", address, preexec_fn=interruptible)
        for _ in range(2):  # the second connection is that of the call
            silent.accept()[0].close()
        asking.signal(signal.SIGINT)
        assert asking.wait() == 128 + signal.SIGINT
        assert asking.output == asking.errors == ""


@pytest.mark.parametrize("arguments", [["host"], ["--status", "host"], ["--status", "[::1]"], ["::1"]])
def test_an_address_without_a_port(arguments, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    out, err = capsys.readouterr()
    assert out == "" and err.startswith(f"broker: address '{arguments[-1]}': no port; expected HOST:PORT")
    assert err.count("\n") == 1


def test_a_port_that_is_closed(capsys):
    with pytest.raises(SystemExit, match="1"):
        main(["--status", "127.0.0.1:1"])
    assert capsys.readouterr() == ("", REFUSED)
