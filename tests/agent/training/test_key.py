"""With a key, from the environment: who has it trains, who has not is refused, and nobody writes it down."""

import secrets

from rigs.experiments import experiments
from rigs.processes import wait_until


def test_only_peers_with_the_key_join_and_it_is_written_nowhere(tmp_path, monkeypatch):
    key = secrets.token_hex(32)
    path = tmp_path / "keys" / "herd.key"
    path.parent.mkdir()
    path.write_text(key)
    path.chmod(0o600)
    directory = tmp_path / "run"
    directory.mkdir()
    with experiments(directory) as group:
        monkeypatch.setenv("MOOLIB_KEY_FILE", str(path))
        address = group.broker()
        monkeypatch.delenv("MOOLIB_KEY_FILE")
        stranger = group.peer("stranger", f"connect={address}", "total_steps=1e9", "connect_timeout=4")
        monkeypatch.setenv("HERD_KEY_FILE", str(path))
        settings = (f"connect={address}", "total_steps=2000", "wandb=true")
        monkeypatch.setenv("WANDB_MODE", "offline")
        peer = group.peer("a", *settings)
        wait_until(lambda: len(group.rows("a")) > 2, "the peer with the key trains")
        said = stranger.finish(60)
        assert stranger.returncode == 2 and "Traceback" not in said, said
        assert "the keys differ" in said.splitlines()[-1]
        said = peer.finish(60)
        assert peer.returncode == 0, said
        files = [file for file in directory.rglob("*") if file.is_file()]
        assert any("meta.json" in file.name for file in files) and any(
            ".wandb" in file.name for file in files
        )
        assert [file for file in files if key.encode() in file.read_bytes()] == []
        assert key not in said
