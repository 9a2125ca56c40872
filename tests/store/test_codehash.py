from pathlib import Path

from steptune.store.codehash import code_hash


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_the_hash_follows_every_source_file_and_nothing_else(tmp_path: Path) -> None:
    root = tree(tmp_path, {"a.py": "1", "sub/b.py": "2"})
    first = code_hash(root)
    tree(root, {"notes.md": "x", "__pycache__/a.pyc": "x"})
    assert code_hash(root) == first
    tree(root, {"sub/b.py": "3"})
    assert code_hash(root) != first


def test_content_moved_between_files_or_names_changes_the_hash(tmp_path: Path) -> None:
    trees = [{"a.py": "12", "b.py": ""}, {"a.py": "1", "b.py": "2"}, {"a.py": "1", "c.py": "2"}]
    assert len({code_hash(tree(tmp_path / str(i), files)) for i, files in enumerate(trees)}) == 3


def test_the_installed_package_has_a_hash() -> None:
    assert len(code_hash()) == 64
    assert code_hash() == code_hash()
