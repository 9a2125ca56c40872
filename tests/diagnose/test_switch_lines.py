"""What to switch on is written as the user writes: Python gets keyword arguments, YAML keys, scripts flags."""

import pytest
from paste_cases import paste, setting

from steptune.diagnose.job import read_job
from steptune.diagnose.switch_lines import switch_lines


@pytest.mark.parametrize(
    ("framework", "layer", "key", "expected"),
    [
        ("trl", "code", "num_generations", ["report_to='trackio',", "logging_steps=1,"]),
        ("trl", "file", "num_generations", ["report_to: trackio", "logging_steps: 1"]),
        ("trl", "override", "num_generations", ["--report_to trackio", "--logging_steps 1"]),
        ("skyrl", "override", "trainer.epochs", ["trainer.logger=console"]),
        ("skyrl", "file", "trainer.epochs", ["trainer:", "  logger: console"]),
        ("nemo_rl", "file", "grpo.x", ["logger:", "  tensorboard_enabled: true", "logger:", "  monitor_gpus: true"]),
    ],
)
def test_switches_are_in_the_language_of_the_input(framework: str, layer: str, key: str, expected: list[str]) -> None:
    given = paste(framework=framework, settings=(setting(key, 8, layer),), num_steps_seen=0)
    lines = switch_lines(read_job(given))
    assert [line for line, _ in lines] == expected
    assert lines[-1][1], "the last line of a switch says what it prints"


@pytest.mark.parametrize("framework", ["slime", "openrlhf", "prime_rl", "unsloth", "torchforge"])
def test_without_settings_a_switch_stays_as_its_framework_s_documents_write_it(framework: str) -> None:
    from steptune.published.switches import switches

    lines = switch_lines(read_job(paste(framework=framework, num_steps_seen=0)))
    assert [line for line, _ in lines] == [switch.line for switch in switches(framework)]
