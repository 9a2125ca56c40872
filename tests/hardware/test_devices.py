import re

import pytest

from steptune.hardware.devices import devices, find_device


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("8x NVIDIA H100 80GB HBM3", "H100"),
        ("H100 (DGX, 8/node)", "H100"),
        ("NVIDIA H100 PCIe", "H100 PCIe"),
        ("GB200", "GB200"),
        ("B200", "B200"),
        ("4x A100 80GB", "A100"),
        ("NVIDIA A100-SXM4-40GB", "A100 40GB"),
        ("A100 40GB", "A100 40GB"),
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        ("NVIDIA RTX A6000", "A6000"),
        ("8x H20", "H20"),
        ("Ascend 910B", "Ascend 910B"),
        ("910B3", "Ascend 910B"),
        ("AMD Instinct MI300X", "MI300X"),
    ],
)
def test_names_as_people_write_them(text: str, name: str) -> None:
    found = find_device(text)
    assert found is not None
    assert found.name == name


@pytest.mark.parametrize("text", ["", "C550", "XH100", "H1000", "TPU v5e"])
def test_an_unknown_name_is_no_device(text: str) -> None:
    assert find_device(text) is None


def test_every_device_is_found_by_its_own_name() -> None:
    for device in devices():
        found = find_device(device.name)
        assert found is not None
        # a name with the larger memory may be the plain one
        assert found.name == device.name


def test_every_row_has_a_source_and_numbers_of_the_right_size() -> None:
    for device in devices():
        assert re.search(r"https?://|verl/utils|die", device.source)
        assert 8 <= device.memory_gib <= 512
        assert device.bf16_peak_tflops is None or 50 <= device.bf16_peak_tflops <= 3000
        assert device.hbm_gbyte_per_s is None or 100 <= device.hbm_gbyte_per_s <= 20_000


def test_rows_that_fill_an_h100() -> None:
    # 989e12 / 3350e9 = 295
    found = find_device("H100")
    assert found is not None
    assert found.ridge_rows == pytest.approx(295.2, abs=0.1)


def test_unknown_peak_has_no_ridge() -> None:
    found = find_device("B300")
    assert found is not None
    assert found.ridge_rows is None
