import pytest
from hypothesis import given
from hypothesis import strategies as st
from layouts import ENGINE

from steptune.core.errors import DeviceError
from steptune.footprint.roofline import decode, prefill
from steptune.hardware.devices import named_device
from steptune.shapes.registry import named_shape

H100 = named_device("H100")
ONE = ENGINE.model_copy(update={"tensor": 1})
QWEN = named_shape("qwen3-8b")


def test_one_row_reads_the_weights_and_is_bound_by_it() -> None:
    found = decode(QWEN, ONE, H100, rows=1, context=0)
    # 8.19e9 parameters less the embedding that is looked up, 2 bytes each, 3350 GB/s
    assert found.weights_s == pytest.approx((8.191e9 - 0.622e9) * 2 / 3350e9, rel=0.001)
    assert found.bound == "bandwidth"


def test_many_rows_are_bound_by_arithmetic_about_where_the_ridge_is() -> None:
    assert decode(QWEN, ONE, H100, rows=250, context=0).bound == "bandwidth"
    assert decode(QWEN, ONE, H100, rows=350, context=0).bound == "compute"


def test_few_rows_touch_few_experts() -> None:
    shape = named_shape("qwen3-30b-a3b")
    one, many = (decode(shape, ONE, H100, rows=n, context=0).weights_s for n in (1, 256))
    assert one < 0.15 * many
    assert many == pytest.approx(decode(shape, ONE, H100, rows=10_000, context=0).weights_s, rel=0.01)


def test_a_prompt_is_bound_by_arithmetic() -> None:
    found = prefill(QWEN, ONE, H100, tokens=8_192, length=1_024)
    assert found.bound == "compute"
    assert found.seconds == pytest.approx(8_192 * 2 * 6.946e9 / 989e12, rel=0.03)


def test_tensor_parallelism_halves_traffic_and_adds_an_exchange() -> None:
    one, two = decode(QWEN, ONE, H100, rows=32, context=1000), decode(QWEN, ENGINE, H100, rows=32, context=1000)
    assert two.weights_s == pytest.approx(one.weights_s / 2)
    assert one.link_s == 0
    # 36 layers x 2 x (1/2 x 2 x 32 x 4096 x 2 bytes) / 450 GB/s
    assert two.link_s == pytest.approx(36 * 2 * 32 * 4096 * 2 / 450e9)


def test_a_figure_nobody_published_is_refused_by_name() -> None:
    with pytest.raises(DeviceError, match=r"bf16_peak_tflops.*measure"):
        decode(QWEN, ONE, named_device("V100"), rows=1, context=1)
    with pytest.raises(DeviceError, match="fp8_peak_tflops"):
        decode(QWEN, ONE.model_copy(update={"weight_bytes": 1}), named_device("A100"), rows=1, context=1)
    with pytest.raises(DeviceError, match="hbm_gbyte_per_s"):
        decode(QWEN, ONE, named_device("Ascend 910B"), rows=1, context=1)


@given(st.integers(0, 2000), st.integers(0, 2000), st.floats(0, 30_000))
def test_more_rows_never_take_less(one: int, two: int, context: float) -> None:
    few, many = sorted((one, two))
    least = decode(QWEN, ONE, H100, rows=few, context=context).seconds
    assert least <= decode(QWEN, ONE, H100, rows=many, context=context).seconds
    assert decode(QWEN, ONE, H100, rows=0, context=context).seconds == 0


def test_whole_experts_wait_for_the_busiest_device_until_all_are_chosen() -> None:
    shape, device = named_shape("deepseek-r1"), named_device("H200")
    cut = ENGINE.model_copy(update={"tensor": 8, "weight_bytes": 1})
    whole = cut.model_copy(update={"expert": 8})
    few, many = (
        [decode(shape, one, device, rows=rows, context=0).weights_s for one in (cut, whole)] for rows in (4, 10_000)
    )
    assert few[1] > 1.2 * few[0]
    assert many[1] == pytest.approx(many[0], rel=1e-3)


def test_attention_ranks_of_their_own_divide_rows_and_experts_but_not_attention() -> None:
    shape, device = named_shape("qwen3-30b-a3b"), named_device("H100")
    apart = ONE.model_copy(update={"data": 4, "expert": 4})
    alone, found = (decode(shape, one, device, rows=64, context=1_000) for one in (ONE, apart))
    assert found.cache_s == pytest.approx(alone.cache_s / 4)
    assert found.compute_s == pytest.approx(alone.compute_s / 4)
    assert alone.weights_s / 4 < found.weights_s < alone.weights_s
    # 48 layers x 2 x (16 rows x 3 other devices x 2,048 x 2 bytes) / 450 GB/s
    assert found.link_s == pytest.approx(48 * 2 * 16 * 3 * 2_048 * 2 / 450e9)


def test_narrow_experts_leave_the_rest_of_the_weights_as_wide_as_they_are() -> None:
    shape, device = named_shape("gpt-oss-120b"), named_device("H100")
    wide, narrow = (
        decode(shape, ONE.model_copy(update={"expert_bytes": bytes_each}), device, rows=10_000, context=0).weights_s
        for bytes_each in (None, 0.5625)
    )
    # 36 layers x 128 experts x 3 matrices x 2,880^2, 2 - 0.5625 bytes apart
    assert wide - narrow == pytest.approx(36 * 128 * 3 * 2_880**2 * (2 - 0.5625) / 3_350e9, rel=0.01)


def test_products_are_as_precise_as_stated_whatever_is_stored() -> None:
    stored = ONE.model_copy(update={"weight_bytes": 0.5625})
    bf16, fp8 = (
        decode(QWEN, stored.model_copy(update={"products": name}), H100, rows=64, context=0).compute_s
        for name in ("bf16", "fp8")
    )
    assert bf16 == pytest.approx(2 * fp8, rel=0.01)
