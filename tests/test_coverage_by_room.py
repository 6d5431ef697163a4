"""tools/coverage_by_room.py: which room a file is in, and what is below its floor."""

from __future__ import annotations

import pytest

from coverage_by_room import by_room, floors, floors_of, show


def file_of(statements: int, covered: int) -> dict[str, dict[str, int]]:
    return {"summary": {"num_statements": statements, "covered_lines": covered}}


FILES = {
    "src/ottla/wire/fields.py": file_of(10, 9),
    "src/ottla/wire/deep/er.py": file_of(10, 6),
    "src/ottla/clock.py": file_of(4, 1),
    "src/ottla/net/__init__.py": file_of(0, 0),
}


def test_a_room_is_a_folder_of_the_package() -> None:
    assert by_room(FILES) == {".": 25.0, "wire": 75.0, "all": pytest.approx(66.67, abs=0.01)}


def test_only_what_has_a_floor_can_be_below_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert show(by_room(FILES), floors("wire 76\nall 66\n")) == ["wire"]
    assert "wire              75.0%    76%" in capsys.readouterr().out
    assert show(by_room(FILES), floors("wire 75\n")) == []


def test_a_floor_leaves_room_for_a_run_that_covers_a_little_less() -> None:
    written = floors_of({"wire": 75.4, "net": 76.0, "all": 0.3})
    assert written == "wire 74\nnet 75\nall 0\n"
    assert show({"wire": 74.0, "net": 75.1, "all": 0.0}, floors(written)) == []
