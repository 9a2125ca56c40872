"""A text turned into the excerpt that a reader would make of it."""

from collections.abc import Callable, Sequence

import pytest

from steptune.core.paste import Excerpt, ExcerptKind, Paste, Setting, SettingValue
from steptune.core.profile import Origin

MakePaste = Callable[..., Paste]


def _setting(key: str, value: SettingValue) -> Setting:
    layer = "env" if key.startswith("env.") else "override"
    return Setting(key=key, value=value, text=str(value), layer=layer, origin=Origin(path="run.sh", line=1, key=key))


@pytest.fixture
def oom_paste() -> MakePaste:
    """Return a builder: ``oom_paste(text, frames=(), framework="verl", settings={...})``."""

    def build(
        *texts: str,
        frames: Sequence[str] = (),
        framework: str | None = None,
        settings: dict[str, SettingValue] | None = None,
        kind: ExcerptKind = ExcerptKind.OOM,
        count: int = 1,
    ) -> Paste:
        excerpts = tuple(
            Excerpt(
                kind=kind,
                text=text,
                origin=Origin(path="run.log", line=10 + index, key=""),
                context=tuple(frames),
                count=count,
            )
            for index, text in enumerate(texts)
        )
        made = tuple(_setting(key, value) for key, value in (settings or {}).items())
        return Paste(paths=("run.log",), framework=framework, excerpts=excerpts, settings=made)

    return build
