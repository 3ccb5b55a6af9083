"""Several logs as one."""

import pytest

from agent.logs.log import Logs
from agent.logs.tsv_log import Column, TsvLog


def test_logs_write_and_close_all(tmp_path):
    paths = [tmp_path / "a.tsv", tmp_path / "b.tsv"]
    members = [TsvLog(path, [Column("step", "", ""), Column("loss", "", "")]) for path in paths]
    logs = Logs(members)
    logs.write({"step": 1})
    logs.close()
    assert [path.read_text() for path in paths] == ["step\tloss\n1\t\n"] * 2
    with pytest.raises(ValueError, match="closed"):
        members[0].write({"step": 2})
