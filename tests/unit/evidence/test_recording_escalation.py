"""An escalation opens at once, is extended and never nested, and ends when its cause is gone, or its budget."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from provstore.errors import ConfigError
from provstore.evidence.recording.detectors import GradNorm, LossSpike
from provstore.evidence.recording.escalation import Escalator
from provstore.evidence.recording.orders import Order
from provstore.evidence.recording.policy import compile_recording_policy
from provstore.evidence.recording.triggers import TRIGGERS, EscalationSettings
from provstore.model.recording import AnomalySignal, Escalation, RiskContext

STEP_NS = 1_000_000


def run_losses(losses, escalator=None):
    """Feed losses as a recorder does, one a step; return every state of an escalation that was reported."""
    escalator, detector, news = escalator or Escalator(rank=0), LossSpike(), []
    for step, loss in enumerate(losses):
        escalator.heed(detector.update(loss), "loss-spike", "run", step, step * STEP_NS)
        news += escalator.step(step, step * STEP_NS)
    return news


def run_script(escalator, script, trigger="non-finite", scope="group:dp", start=0):
    """One character a step: ``!`` fires, ``.`` is calm, ``~`` is neither, ``_`` has no value."""
    news = []
    for step, said in enumerate(script, start):
        if said == "!":
            escalator.fire(trigger, scope, step, step * STEP_NS)
        elif said == ".":
            escalator.calm(trigger, scope, step)
        elif said == "_":
            escalator.silent(trigger, scope, step)
        news += escalator.step(step, step * STEP_NS)
    return news


def events(news):
    return [(one.event, one.name, one.closed_step if one.event == "closed" else one.opened_step) for one in news]


def plateau(steps, seed=0, share=0.01):
    rng = random.Random(seed)
    return [2.3 * (1 + share * rng.gauss(0, 1)) for _ in range(steps)]


def test_a_loss_with_one_spike_opens_one_escalation_in_its_step_and_closes_it_after_hold_and_clear():
    losses = plateau(400)
    losses[100] += 5

    news = run_losses(losses)

    assert events(news) == [("opened", "esc-0", 100), ("closed", "esc-0", 150)]
    assert news[0].scope == "run"
    assert news[0].rule == "P2"
    assert news[0].source == "rank:0"
    assert news[0].value > news[0].threshold == 6
    assert (news[0].opened_ns, news[1].closed_ns) == (100 * STEP_NS, 150 * STEP_NS)
    assert news[1].close_reason == "clear"


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("share", [0.002, 0.01, 0.05])
def test_a_noisy_plateau_opens_nothing_in_10_000_steps(seed, share):
    assert run_losses(plateau(10_000, seed, share)) == []


def test_an_oscillating_loss_latches_its_scope_to_the_end_of_the_epoch():
    losses = [loss + (5 if step >= 60 and step % 52 == 0 else 0) for step, loss in enumerate(plateau(480))]
    escalator = Escalator(rank=0)

    news = run_losses(losses, escalator)
    ended = escalator.begin_epoch(9)

    # The fourth cycle within 200 steps: 104, 156, 208, 260.
    assert events(news) == [
        ("opened", "esc-0", 104), ("closed", "esc-0", 154), ("opened", "esc-1", 156), ("closed", "esc-1", 206),
        ("opened", "esc-2", 208), ("closed", "esc-2", 258), ("opened", "esc-3", 260), ("extended", "esc-3", 260),
    ]  # fmt: skip
    assert news[-1].latched
    assert [(one.name, one.close_reason) for one in ended] == [("esc-3", "end-of-epoch")]


def test_a_signal_that_clears_and_comes_back_while_it_is_held_latches_too():
    news = run_script(Escalator(rank=0), ("!" + "." * 30) * 6)

    assert events(news) == [("opened", "esc-0", 0), ("extended", "esc-0", 0)]
    assert news[1].latched


def test_a_signal_that_never_clears_in_between_is_one_episode_and_does_not_latch():
    news = run_script(Escalator(rank=0), ("!" + "." * 10) * 20 + "." * 100)

    assert [one.latched for one in news] == [False, False]
    assert events(news) == [("opened", "esc-0", 0), ("closed", "esc-0", 19 * 11 + 50)]


def test_three_cycles_in_200_steps_are_not_too_many_and_slow_ones_never_are():
    assert not any(one.latched for one in run_script(Escalator(rank=0), ("!" + "." * 51) * 3))
    assert not any(one.latched for one in run_script(Escalator(rank=0), ("!" + "." * 66) * 20))


def test_a_firing_extends_what_is_open_and_nothing_nests():
    news = run_script(Escalator(rank=0), "!" + "." * 40 + "!" + "." * 100)

    assert events(news) == [("opened", "esc-0", 0), ("closed", "esc-0", 91)]


def test_only_steps_in_a_row_below_the_clear_threshold_end_it():
    held = run_script(Escalator(rank=0), "!" + "." * 45 + "~" + "." * 60)
    never = run_script(Escalator(rank=0), "!" + ("." * 19 + "~") * 20)

    # The step 46 is between the thresholds: 20 calm steps after it end at 66.
    assert events(held) == [("opened", "esc-0", 0), ("closed", "esc-0", 66)]
    assert events(never) == [("opened", "esc-0", 0)]


def test_a_step_without_a_value_neither_counts_nor_breaks_the_row():
    news = run_script(Escalator(rank=0), "!" + "_____." * 40)

    assert events(news) == [("opened", "esc-0", 0), ("closed", "esc-0", 120)]


def test_it_stays_open_for_the_least_number_of_steps_where_the_hold_is_shorter():
    short = EscalationSettings(min_steps=10, hold_steps=2, clear_steps=1)

    assert events(run_script(Escalator(short, rank=0), "!" + "." * 30))[-1] == ("closed", "esc-0", 10)


def test_500_steps_of_one_scope_in_one_epoch_are_the_most():
    escalator = Escalator(rank=0)

    news = run_script(escalator, "!" * 700)

    assert events(news) == [("opened", "esc-0", 0), ("closed", "esc-0", 499)]
    assert news[1].close_reason == "escalation-budget-exhausted"
    assert escalator.refused == 200
    assert escalator.in_force(["group:dp"]) is None


def test_the_budget_is_one_for_the_epoch_however_many_escalations_share_it():
    few = EscalationSettings(min_steps=1, hold_steps=10, clear_steps=5, max_steps=35, most_cycles=100)

    news = run_script(Escalator(few, rank=0), ("!" + "." * 19) * 8)

    # Each is open for 11 steps, the one of its end included: 33 after three, the fourth has two left.
    assert events(news)[-2:] == [("opened", "esc-3", 60), ("closed", "esc-3", 61)]
    assert [one.close_reason for one in news if one.event == "closed"] == [
        *["clear"] * 3,
        "escalation-budget-exhausted",
    ]


def test_the_budget_is_full_again_in_the_next_epoch_and_that_of_another_scope_is_its_own():
    escalator = Escalator(rank=0)
    run_script(escalator, "!" * 501)

    other = escalator.fire("non-finite", "group:tp", 501, 0)
    refused = escalator.fire("non-finite", "group:dp", 501, 0)
    escalator.begin_epoch()
    again = escalator.fire("non-finite", "group:dp", 502, 0)

    assert (other.name, refused, again.name) == ("esc-1", None, "esc-2")


def test_a_latched_scope_ends_with_its_budget_too():
    news = run_script(Escalator(rank=0), ("!" + "." * 30) * 40)

    assert news[-1].close_reason == "escalation-budget-exhausted"
    assert news[-1].latched


def test_what_is_open_at_the_end_of_an_epoch_and_not_latched_goes_on_in_the_next():
    escalator = Escalator(rank=0)
    run_script(escalator, "!" + "." * 20)

    assert escalator.begin_epoch() == ()
    assert events(run_script(escalator, "." * 60, start=21)) == [("closed", "esc-0", 50)]


def test_what_is_open_for_the_epoch_alone_ends_with_it():
    escalator = Escalator(rank=0)
    escalator.fire("loss-spike", "epoch", 7, 0)

    assert [(one.event, one.close_reason) for one in escalator.begin_epoch(5)] == [
        ("opened", None),
        ("closed", "end-of-epoch"),
    ]


@pytest.mark.parametrize(("trigger", "wanted"), [("xid", {}), ("manual", {"steps": 2_000})], ids=["xid", "manual"])
def test_xid_and_manual_escalations_have_no_step_budget(trigger, wanted):
    escalator, news = Escalator(rank=0), []
    escalator.fire(trigger, "run", 0, 0, **wanted)
    for step in range(1_500):
        news += escalator.step(step, step)

    assert events(news) == [("opened", "esc-0", 0)]


def test_a_manual_escalation_lasts_as_many_steps_as_it_says():
    escalator = Escalator(rank=0)
    escalator.fire("manual", "rank:0", 5, 0, steps=70, reason="look at rank 0")

    news = [one for step in range(5, 100) for one in escalator.step(step, step)]

    assert events(news) == [("opened", "esc-0", 5), ("closed", "esc-0", 75)]
    assert news[1].close_reason == "steps-over"
    assert news[1].reason == "look at rank 0"


def test_an_application_xid_ends_by_the_hold_and_a_hardware_one_with_the_attempt():
    escalator = Escalator(rank=0)
    escalator.fire("xid", "rank:0", 0, 0, value=31, ends="hold")
    escalator.fire("xid", "rank:1", 0, 0, value=79)

    news = [one for step in range(300) for one in escalator.step(step, step)]
    ended = escalator.end(300, 300)

    assert [(one.scope, one.closed_step) for one in news if one.event == "closed"] == [("rank:0", 50)]
    assert [(one.scope, one.close_reason) for one in ended] == [("rank:1", "end-of-attempt")]


def test_another_trigger_on_the_same_scope_extends_it_and_both_must_end():
    escalator = Escalator(rank=0)
    run_script(escalator, "!" + "." * 20, scope="run")
    escalator.fire("xid", "run", 21, 0, value=31, ends="hold")
    news = run_script(escalator, "." * 100, scope="run", start=21)

    assert events(news) == [("extended", "esc-0", 0), ("closed", "esc-0", 71)]
    assert news[0].evidence == ("extended-by:xid",)
    assert (news[0].trigger, news[0].rule) == ("non-finite", "P1")


def test_an_exhausted_budget_ends_only_what_it_limits():
    escalator = Escalator(rank=0)
    escalator.fire("xid", "group:dp", 0, 0)

    news = run_script(escalator, "!" * 700)

    assert [one.event for one in news] == ["opened", "extended"]
    assert escalator.in_force(["group:dp"]).name == "esc-0"


def test_a_signal_whose_score_does_not_escalate_opens_nothing():
    escalator = Escalator(rank=0)
    forced = AnomalySignal("cusum", 0.0)
    object.__setattr__(forced, "score", math.nan)

    assert escalator.fire("detector", "rank:0", 1, 0, signal=AnomalySignal("cusum", 0.8)) is None
    assert escalator.fire("detector", "rank:0", 1, 0, signal=forced) is None
    assert escalator.fire("detector", "rank:0", 1, 0, signal=AnomalySignal("cusum", 0.81)).name == "esc-0"


def test_an_action_is_escalated_by_its_scopes_the_run_and_the_epoch_and_by_no_other():
    escalator = Escalator(rank=2)
    escalator.fire("non-finite", "group:dp", 1, 0)

    assert escalator.in_force(["rank:2", "group:tp"]) is None
    assert escalator.in_force(["rank:2", "group:dp"]).scope == "group:dp"
    escalator.fire("loss-spike", "run", 1, 0)
    assert escalator.in_force().scope == "run"
    assert [one.name for one in escalator.all_in_force(["group:dp"])] == ["esc-1", "esc-0"]


def test_a_signal_from_outside_decides_before_a_statistic():
    escalator = Escalator(rank=2)
    escalator.fire("loss-spike", "run", 1, 0)
    escalator.fire("desync", "group:dp", 1, 0)

    policies = [
        compile_recording_policy(RiskContext(side_effect_class="read"), escalator.in_force(scopes)).reason
        for scopes in ([], ["group:dp"])
    ]

    assert policies == ["statistical anomaly detected", "external escalation signal"]


def test_a_restarted_rank_has_its_open_escalations_in_force_again_and_holds_anew():
    before = Escalator(rank=3)
    run_script(before, "!" + "." * 30)
    after = Escalator(rank=3, open=before.open)

    at_once = after.in_force(["group:dp"])
    # The restart resumes from an earlier step.
    news = run_script(after, "." * 80, start=10)

    assert at_once.name == "esc-0"
    assert events(news) == [("extended", "esc-0", 0), ("closed", "esc-0", 60)]


def test_a_restarted_rank_never_gives_a_number_twice():
    opened = Escalation(4, "loss-spike", "rank:3", "run", "P2", 5, 17)

    assert Escalator(rank=3, open=[opened]).fire("non-finite", "group:dp", 18, 0).name == "esc-5"
    assert Escalator(rank=3, first_number=9).fire("non-finite", "group:dp", 18, 0).name == "esc-9"


def test_a_latched_escalation_is_latched_after_a_restart():
    before = Escalator(rank=0)
    run_script(before, ("!" + "." * 30) * 6)
    after = Escalator(rank=0, open=before.open)

    assert events(run_script(after, "." * 120, start=186)) == [("extended", "esc-0", 0)]
    assert [one.close_reason for one in after.begin_epoch()] == ["end-of-epoch"]


def test_what_somebody_else_opened_is_not_re_armed_by_this_rank():
    by_order = Escalation(0, "manual", "operator", "run", "P1", 5, 17)

    assert Escalator(rank=3, open=[by_order]).open == ()


def order(**changes):
    plain = {
        "number": 0, "trigger": "manual", "scope": "run", "rule": "P1", "from_step": 10, "steps": 5,
        "reason": "looks odd", "source": "operator", "opened_ns": 1,
    }  # fmt: skip
    return Order(**(plain | changes))


def obeyed(orders_by_step, steps=40):
    escalator, news = Escalator(rank=0), []
    for step in range(steps):
        if step in orders_by_step:
            escalator.obey(orders_by_step[step])
        news += escalator.step(step, step)
    return news


def test_an_order_holds_from_its_step_for_its_number_of_steps():
    news = obeyed({3: [order()]})

    assert events(news) == [("opened", "esc-0", 10), ("closed", "esc-0", 15)]
    assert (news[0].source, news[0].reason, news[1].close_reason) == ("operator", "looks odd", "steps-over")


def test_the_first_step_of_an_order_is_the_first_one_whose_calls_it_covers():
    escalator, covered = Escalator(rank=0), []
    escalator.obey([order()])
    for step in range(30):
        covered += [step] if escalator.in_force() is not None else []
        escalator.step(step, step)

    assert covered == [11, 12, 13, 14, 15]
    assert order().first_step == covered[0]


@pytest.mark.parametrize(
    ("read_at", "evidence"), [(3, ()), (10, ()), (11, ("late-by:1",)), (13, ("late-by:3",)), (0, ())]
)
def test_a_rank_that_reads_an_order_after_its_step_says_by_how_many_steps(read_at, evidence):
    assert obeyed({read_at: [order()]})[0].evidence == evidence


@pytest.mark.parametrize("first", [0, 1, 5000])
def test_an_order_before_the_first_step_counts_its_steps_from_that_step(first):
    escalator, news = Escalator(rank=0), []
    escalator.obey([order(from_step=0, before_steps=True)])
    for step in range(first, first + 40):
        news += escalator.step(step, step)
        if step == first + 2:  # read again, when its first step is known
            escalator.obey([order(from_step=first)])

    assert events(news) == [("opened", "esc-0", first), ("closed", "esc-0", first + 5)]
    assert news[0].evidence == ()


def test_an_order_before_the_first_step_that_a_rank_reads_later_is_late_by_the_steps_since():
    escalator = Escalator(rank=0)
    for step in (5000, 5001, 5002):
        escalator.step(step, 0)
    escalator.obey([order(from_step=0, before_steps=True)])
    (opened,) = escalator.step(5003, 0)

    assert (opened.event, opened.evidence) == ("opened", ("late-by:3",))


def test_what_was_ordered_before_a_rank_looked_first_or_between_its_steps_is_not_late():
    for steps in ((12, 13), (5, 12, 13)):
        escalator = Escalator(rank=0)
        escalator.step(steps[0], 0) if len(steps) > 2 else None
        escalator.obey([order()])
        (opened,) = escalator.step(12, 0)
        assert (opened.event, opened.evidence) == ("opened", ())


def test_a_rank_that_reads_an_order_late_opens_it_late_and_ends_it_with_the_others():
    assert events(obeyed({12: [order()]})) == [("opened", "esc-0", 12), ("closed", "esc-0", 15)]
    assert obeyed({20: [order()]}) == []


def test_an_order_is_extended_and_closed_by_later_versions_of_the_file():
    longer = obeyed({3: [order()], 12: [order(steps=20)]})
    closed = obeyed({3: [order(steps=None)], 25: [order(steps=None, is_closed=True)]})
    by_watch = obeyed({3: [order(steps=None, trigger="xid")], 25: [order(trigger="xid", is_closed=True)]})

    assert events(longer)[-1] == ("closed", "esc-0", 30)
    assert events(closed)[-1] == ("closed", "esc-0", 25)
    assert closed[-1].close_reason == "deescalated"
    assert by_watch[-1].close_reason == "clear"


def test_an_order_that_is_no_longer_in_the_file_stays_as_it_was():
    assert events(obeyed({3: [order()], 11: []})) == [("opened", "esc-0", 10), ("closed", "esc-0", 15)]


def test_an_order_escalates_actions_of_its_scope():
    escalator = Escalator(rank=0)
    escalator.fire("loss-spike", "run", 0, 0)
    escalator.obey([order(scope="rank:0", from_step=0)])
    escalator.step(1, 1)

    assert escalator.in_force(["rank:0"]).trigger == "manual"
    assert escalator.in_force(["rank:1"]).trigger == "loss-spike"
    assert [one.close_reason for one in escalator.end(2, 2)] == ["end-of-attempt"] * 2


def test_an_order_for_the_epoch_ends_with_it_and_does_not_open_again():
    escalator = Escalator(rank=0)
    escalator.obey([order(scope="epoch", from_step=0, steps=None)])
    opened = escalator.step(1, 1)
    ended = escalator.begin_epoch()

    assert [one.event for one in (*opened, *ended)] == ["opened", "closed"]
    assert [escalator.step(step, step) for step in range(2, 10)] == [()] * 8


def test_an_operator_ends_what_is_open_for_a_scope():
    escalator = Escalator(rank=0)
    run_script(escalator, "!")

    assert [one.close_reason for one in escalator.deescalate("group:dp", 1, 1)] == ["deescalated"]
    assert escalator.deescalate("run", 1, 1) == ()


def test_a_vanished_gradient_norm_escalates_the_rank_and_clears_when_it_is_back():
    escalator, detector, news = Escalator(rank=1), GradNorm(), []
    for step in range(200):
        norm = 0.0 if step == 60 else 1 + 0.01 * (step % 5)
        escalator.heed(detector.update(norm, 2.0), "grad-norm", "rank:1", step, step)
        news += escalator.step(step, step)

    assert events(news) == [("opened", "esc-0", 60), ("closed", "esc-0", 110)]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("guess", "run", 0, 0), "guess: trigger: "),
        (("xid", "everything", 0, 0), "'everything': scope: "),
        (("xid", "rank:-1", 0, 0), "'rank:-1': scope: "),
        (("xid", "group:", 0, 0), "'group:': scope: "),
        (("manual", "run", 0, 0), "manual: steps: None: "),
    ],
)
def test_a_trigger_or_scope_that_does_not_exist_is_refused(arguments, reason):
    with pytest.raises(ConfigError, match=f"^{reason}"):
        Escalator(rank=0).fire(*arguments)


@pytest.mark.parametrize("steps", [0, -1, 1.5, True])
def test_a_setting_that_is_no_number_of_steps_is_refused(steps):
    with pytest.raises(ConfigError, match=r"^escalation: hold_steps: "):
        EscalationSettings(hold_steps=steps)
    with pytest.raises(ConfigError, match=r"^manual: steps: "):
        Escalator(rank=0).fire("manual", "run", 0, 0, steps=steps)


@pytest.mark.parametrize(
    ("changed", "script"),
    [
        ({"min_steps": 70}, "!" + "." * 100),
        ({"hold_steps": 30}, "!" + "." * 100),
        ({"clear_steps": 40}, "!" + "." * 20 + "~" + "." * 100),
        ({"most_cycles": 1}, ("!" + "." * 30) * 3),
        ({"cycle_window": 20}, ("!" + "." * 30) * 6),
        ({"max_steps": 40}, "!" + "." * 100),
    ],
)
def test_every_setting_has_an_effect(changed, script):
    plain = run_script(Escalator(rank=0), script)

    assert run_script(Escalator(EscalationSettings(**changed), rank=0), script) != plain


TRIGGER_NAMES = sorted(set(TRIGGERS) - {"manual"})


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["fire", "calm", "silent", "nothing", "epoch"]),
            st.sampled_from(TRIGGER_NAMES),
            st.sampled_from(["run", "group:dp", "rank:0"]),
        ),
        max_size=300,
    )
)
def test_escalations_open_once_close_once_and_never_nest(acts):
    escalator, news = Escalator(EscalationSettings(2, 5, 3, 2, 30, 25), rank=0), []
    for step, (act, trigger, scope) in enumerate(acts):
        if act == "fire":
            escalator.fire(trigger, scope, step, step)
        elif act == "calm":
            escalator.calm(trigger, scope, step)
        elif act == "silent":
            escalator.silent(trigger, scope, step)
        elif act == "epoch":
            news += escalator.begin_epoch()
        news += escalator.step(step, step)
    news += escalator.end(len(acts), len(acts))

    open_scopes, seen = {}, set()
    for one in news:
        if one.event == "opened":
            assert one.scope not in open_scopes
            assert one.number not in seen
            open_scopes[one.scope] = one.number
            seen.add(one.number)
        elif one.event == "closed":
            assert open_scopes.pop(one.scope) == one.number
            assert one.closed_step >= one.opened_step
        else:
            assert open_scopes[one.scope] == one.number
    assert open_scopes == {}


def test_an_order_that_is_made_to_last_longer_says_each_reason_in_a_state_of_its_own() -> None:
    early = obeyed({3: [order(steps=20, reason="b", earlier_reasons=("a",))]})
    late = obeyed({3: [order(reason="a")], 12: [order(steps=20, reason="b", earlier_reasons=("a",))]})
    for news in (early, late):
        assert [(one.event, one.reason) for one in news] == [("opened", "a"), ("extended", "b"), ("closed", "a")]
        assert news[2].evidence == ("extended-by:manual",)
