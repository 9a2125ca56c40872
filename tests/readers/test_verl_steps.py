import math
from collections.abc import Iterator

from reader_logs import FIXTURES, steps_in

from steptune.readers.step import StepRecord


def steps_of(*lines: str) -> list[StepRecord]:
    return list(steps_in([f"{line}\n" for line in (*lines, "end of log")], "verl"))


def test_numpy_scalars_integers_exponents_and_nan_are_numbers() -> None:
    line = "step:3 - timing_s/gen:np.float64(21.47) - critic/score/mean:np.float32(0.25) - actor/ppo_kl:-8.1e-06 - "
    [step] = steps_of(line + "num_turns/min:2 - actor/loss:nan - timing_s/step:40 - a/b:1")
    assert step.value("timing_s/gen") == 21.47
    assert step.value("critic/score/mean") == 0.25
    assert step.value("actor/ppo_kl") == -8.1e-06
    assert step.value("num_turns/min") == 2
    loss = step.value("actor/loss")
    assert loss is not None
    assert math.isnan(loss)


def test_a_value_that_is_no_number_is_dropped_with_its_text() -> None:
    [step] = steps_of("step:3 - timing_s/gen:np.float64(21. - timing_s/step:40 - a/b:1")
    assert step.value("timing_s/gen") is None
    assert step.has_broken("timing_s/gen")
    assert step.dropped[0].text == "np.float64(21."


def test_a_progress_bar_glued_before_the_step_is_no_obstacle() -> None:
    bar = "Training Progress:   0%|          | 2/624 [21:47<114:32:27, 662.94s/it]"
    [first] = steps_of(f"{bar}step:3 - timing_s/step:40 - a/b:1")
    [second] = steps_of(f"{bar}\rstep:4 - timing_s/step:41 - a/b:1")
    assert (first.number, second.number) == (3, 4)


def test_global_step_is_not_taken_for_the_start_of_a_step() -> None:
    [step] = steps_of("step:3 - training/global_step:12 - timing_s/step:40 - a/b:1")
    assert step.number == 3


def test_step_zero_with_validation_only_is_a_step_without_time() -> None:
    text = (FIXTURES / "verl_validation_then_cut.txt").read_text()
    zero, one = steps_in(text.splitlines(keepends=True), "verl")
    assert (zero.number, zero.value("val-core/openai/gsm8k/acc/mean@1"), zero.value("timing_s/step")) == (
        0,
        0.508,
        None,
    )
    assert (one.number, one.value("actor/entropy")) == (1, 0.323)


def test_lines_of_one_step_are_merged_and_a_repeated_key_starts_a_new_one() -> None:
    merged = steps_of("step:3 - a/x:1 - a/y:2", "other output", "step:3 - timing_s/step:40 - a/z:3")
    repeated = steps_of("step:3 - a/x:1 - a/y:2", "step:3 - a/x:5 - a/y:6")
    assert [dict(s.readings).keys() for s in merged] == [{"a/x", "a/y", "timing_s/step", "a/z"}]
    assert [s.value("a/x") for s in repeated] == [1, 5]


def test_a_list_of_one_metric_per_line_is_a_step_without_number() -> None:
    [step] = steps_of("- timing_s/gen:31.27   (72%)", "-  timing_s/update_actor: 7.5 ", "- timing_s/step:  43.64")
    assert (step.number, step.value("timing_s/gen"), step.value("timing_s/step")) == (None, 31.27, 43.64)


def test_steps_come_one_by_one_while_the_log_is_still_being_read() -> None:
    def growing() -> Iterator[str]:
        yield "step:1 - timing_s/step:40 - a/b:1\n"
        yield "step:2 - timing_s/step:41 - a/b:1\n"
        yield "step:3 - timing_s/step:42 - a/b:1\n"
        raise AssertionError("read further than one step ahead")

    steps = steps_in(growing(), "verl")
    assert next(steps).number == 1


def test_free_text_about_a_timer_is_no_reading() -> None:
    text = "[FullyAsyncTrainer] _fit_update_weights, timing_s/param_sync: 13.3354 seconds self.current_param_version: 0"
    assert steps_of(text) == []


def test_averages_that_a_monitor_prints_are_read_under_their_names() -> None:
    average = "INFO - [45/58] : (avg (std), med) = (287.968 [   0.000] (  9.989), 287.859)  # response_length/mean"
    [step] = steps_of(average, average.replace("287.968", " 68.422").replace("response", "prompt"))
    assert (step.value("response_length/mean"), step.value("prompt_length/mean")) == (287.968, 68.422)


def test_a_step_line_without_its_beginning_is_a_step_without_number() -> None:
    [step] = steps_of("global_seqlen/min:135.000 - global_seqlen/max:166.000 - actor/entropy:0.5")
    assert (step.number, step.value("global_seqlen/max"), step.value("actor/entropy")) == (None, 166, 0.5)


def test_a_doubled_prefix_of_the_fully_async_trainer_is_undone() -> None:
    [step] = steps_of("step:3 - timing_s/timing_s/param_sync:13.3 - timing_s/step:40 - a/b:1")
    assert step.value("timing_s/param_sync") == 13.3


def test_a_paste_that_begins_and_ends_inside_a_key_keeps_what_is_whole_between() -> None:
    [step] = steps_of(
        "ce/generate_sequences:1 - timing_s/slowest/x:-1 - timing_s/gen:869.38 - timing_s/reward:4.5e-05 ",
        "- timing_s/old_log_prob:548.89 - timing_s/update_actor:735.31 - timing_s/step:2160.41 - timing_per_image_ms/",
    )
    assert dict(sorted((key, reading.value) for key, reading in step.readings.items())) == {
        "timing_s/gen": 869.38,
        "timing_s/old_log_prob": 548.89,
        # whole: its row is full and the next one begins with a separator
        "timing_s/reward": 4.5e-05,
        "timing_s/slowest/x": -1,
        "timing_s/step": 2160.41,
        "timing_s/update_actor": 735.31,
    }


def test_a_part_of_a_wrapped_row_gives_no_shortened_last_value() -> None:
    [step] = steps_of("s/mean:0.1 - timing_s/gen:74.0 - timing_s/adv:1.5 - timing_s/step:9", "INFO other output")
    assert step.value("timing_s/gen") == 74.0
    assert step.value("timing_s/step") is None


def test_a_first_key_of_no_group_is_not_read() -> None:
    [step] = steps_of("core/acc:0.5 - timing_s/gen:74.0 - actor/pg_loss:0.1 - timing_s/step:90.0 - x/y:1")
    assert step.value("core/acc") is None
    assert step.value("timing_s/step") == 90.0


def test_lines_that_only_look_like_metrics_are_none() -> None:
    assert steps_of("s/a:1 - see docs/x - timing_s/gen:74.0", "http/1:1 - ok/2:2 - fine/3:3") == []


def test_a_first_row_that_ends_in_the_first_letters_of_a_key_is_one_of_metrics() -> None:
    whole = (
        "critic/returns/max:2.47486 - critic/returns/min:-1.62 - response_length/mean:93.4375 - "
        "response_length/max:128.0 - timing_s/gen:5.4587 - timing_s/step:30.03 - perf/throughput:619.46"
    )
    at = whole.index("response_length/max")
    for cut in (at + 1, at + 8):
        [step] = steps_of(whole[:cut], whole[cut:], "other output")
        assert (step.value("response_length/mean"), step.value("response_length/max")) == (93.4375, 128.0)
        assert step.value("timing_s/step") == 30.03


def test_the_last_line_of_a_log_is_whole_if_it_ends_as_the_step_before_it() -> None:
    row = "step:{} - actor/lr:0.1 - timing_s/gen:20.5 - timing_s/step:31.0 - timing_per_token_ms/gen:1 - {}:120.5\n"
    first, last = steps_in([row.format(1, "perf/throughput"), row.format(2, "perf/throughput")], "verl")
    assert (first.value("perf/throughput"), last.value("perf/throughput")) == (120.5, 120.5)
    for end in (row.format(2, "perf/time_per_step"), row.format(2, "perf/throughput").rstrip("\n")):
        *_, last = steps_in([row.format(1, "perf/throughput"), end], "verl")
        assert last.dropped[-1].text == "120.5"
