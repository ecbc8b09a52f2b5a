"""benchmarks.models.teams from end to end, on a small model."""

import json

import pytest

from benchmarks.models import _compiled, teams


@pytest.mark.skipif(bool(_compiled.backend_missing()), reason=_compiled.backend_missing())
def test_teams_end_to_end(tmp_path, capsys):
    path = tmp_path / "out.json"
    teams.main(["--models", "mobilenet_v2", "--rounds", "1", "--budget", "1", "--json", str(path)])
    document = json.loads(path.read_text())
    (row,) = document["rows"]
    assert set(row["times"]) == {"teams", "each step"}
    assert "woken once" in capsys.readouterr().out
