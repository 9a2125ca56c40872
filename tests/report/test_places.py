from steptune.core.profile import Origin
from steptune.report.places import Places


def test_a_file_is_named_without_its_folder() -> None:
    assert Places(["logs/run.log", "run.sh"]).of(Origin(path="logs/run.log", line=12, key="x")) == "run.log:12"


def test_two_files_of_one_name_keep_their_folders() -> None:
    places = Places(["a/run.log", "b/run.log"])
    assert places.of(Origin(path="b/run.log", line=3, key="x")) == "b/run.log:3"


def test_an_unknown_line_or_origin_is_left_out() -> None:
    places = Places(["run.log"])
    assert places.of(Origin(path="run.log", line=0, key="x")) == "run.log"
    assert places.of(None) == ""
