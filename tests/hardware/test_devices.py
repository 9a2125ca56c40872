import re

import pytest

from steptune.core.errors import DeviceError
from steptune.hardware.devices import devices, figure_sources, find_device, named_device, source_of


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
    found = find_device("Ascend 910C")
    assert found is not None
    assert found.ridge_rows is None


def test_an_unknown_device_is_refused_with_a_near_name() -> None:
    with pytest.raises(DeviceError, match=r"got `H210`.*did you mean `H20|H200|H100"):
        named_device("H210")
    with pytest.raises(DeviceError, match="measure on it"):
        named_device("Cerebras")


def test_peaks_are_dense_and_fp8_is_twice_bf16_at_most() -> None:
    for device in devices():
        if device.fp8_peak_tflops is not None and device.bf16_peak_tflops is not None:
            # sparse figures are twice the dense ones: a mix of both would give 4 or 1
            assert 1.95 <= device.fp8_peak_tflops / device.bf16_peak_tflops <= 2.05


def test_the_devices_that_forecasts_need_have_every_figure() -> None:
    for name in ("H100", "H200", "B200", "B300", "GB200", "GB300", "A100", "A100 40GB", "H800"):
        device = named_device(name)
        assert device.bf16_peak_tflops
        assert device.hbm_gbyte_per_s
        assert device.link_gbyte_per_s
        assert device.nic_gbyte_per_s


def test_figures_with_a_source_of_their_own_are_there_and_what_a_driver_reports_is_less() -> None:
    for (name, field), source in figure_sources().items():
        device = named_device(name)
        assert device.name == name
        assert getattr(device, field) is not None
        assert source.startswith("https://")
        assert source_of(device, field) == source
    for device in devices():
        for field in ("fp8_peak_tflops", "usable_gib", "nic_gbyte_per_s"):
            if getattr(device, field) is not None:
                assert (device.name, field) in figure_sources()
        assert device.usable_gib is None or 0.9 <= device.usable_gib / device.memory_gib < 1
