"""How long a stage takes, and how fast it learns at each step."""

from __future__ import annotations

import pytest

from longtail.errors import BadInput
from longtail.options import AtMost
from longtail.train.course import Course, UntilBest, cosine, course_of, linear


def test_the_learning_rate_rises_and_falls():
    factor = linear(4)
    assert [factor(step, 10) for step in range(4)] == [0.25, 0.5, 0.75, 1.0]
    assert factor(4, 10) == 1.0
    assert factor(9, 10) == pytest.approx(1 / 6)
    assert all(0 < linear(100)(step, 10) <= 1 for step in range(10))


def test_along_a_cosine_the_learning_rate_falls_slowly_then_fast_then_slowly():
    factor = cosine(2)
    assert [factor(step, 10) for step in range(3)] == [0.5, 1.0, 1.0]
    assert factor(6, 10) == pytest.approx(0.5)  # half-way from 2 to 10
    assert factor(4, 10) == pytest.approx((1 + 2**-0.5) / 2)
    assert factor(8, 10) == pytest.approx((1 - 2**-0.5) / 2)
    assert factor(9, 10) > 0


@pytest.mark.parametrize("schedule", [linear, cosine])
def test_a_warm_up_below_one_is_a_share_of_all_steps(schedule):
    for steps in (5, 10, 40):
        shared, counted = schedule(0.4), schedule(0.4 * steps)
        assert [shared(step, steps) for step in range(steps)] == [counted(step, steps) for step in range(steps)]
    course = UntilBest(AtMost(10), linear, 0.1, lambda: 1.0)
    assert [course.factor(step, 4) for step in range(6)] == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]


def test_a_number_of_epochs_is_a_schedule_over_all_of_their_steps():
    course = Course(5, linear(4))
    assert [course.factor(step, 2) for step in range(10)] == [linear(4)(step, 10) for step in range(10)]
    assert (course.ended(1), course.epochs, course.state) == ({}, 5, {})


def test_a_number_of_epochs_is_scored_every_so_often_and_at_the_end():
    scores = iter([1.0, 3.0, 4.0])
    course = Course(5, linear(4), lambda: next(scores), every=2)
    asked = [course.ended(done) for done in range(1, 6)]
    assert asked == [{}, {"held_out": 1.0}, {}, {"held_out": 3.0}, {"held_out": 4.0}]
    assert Course(5, linear(4), None, every=2).ended(2) == {}
    assert course_of("joint", 3, "linear", 4, lambda: 7.0, 3).ended(3) == {"held_out": 7.0}


def followed(most, scores):
    """How many epochs a course has whose scores are these, and after how many its rate begins to fall."""
    left = iter(scores)
    course, falls_after = UntilBest(AtMost(most), linear, 0, lambda: next(left)), []
    epoch = 0
    while epoch < course.epochs:
        if course.factor(10 * epoch + 5, 10) < 1:
            falls_after.append(epoch)
        epoch += 1
        course.ended(epoch)
    return epoch, falls_after[0]


@pytest.mark.parametrize(
    ("most", "scores", "epochs", "falls_after"),
    [
        (24, range(24), 24, 18),  # a third of 18 are the 6 that are left
        (24, [3, 4, 5, 4, 4, 9], 6, 5),  # what comes while the rate falls changes nothing
        (24, [5, 5, 5, 5], 4, 3),  # no more is no gain
        (24, [1, 0, 2, 1, 3, 2, 2, 4, 4], 9, 7),
        (24, [*range(9), 0, 0, 0, 0, 0], 14, 11),
        (4, range(4), 4, 3),
        (2, range(2), 2, 1),
        (1, range(1), 1, 0),
        (24, [-1.0, -2.0, -3.0, 0.0], 4, 3),
    ],
)
def test_the_rate_falls_once_the_best_score_is_two_epochs_old(most, scores, epochs, falls_after):
    assert followed(most, scores) == (epochs, falls_after)


def test_the_rate_rises_stays_and_falls():
    scores = iter([1, 0, 0, 0])
    course = UntilBest(AtMost(24), linear, 3, lambda: next(scores))
    factors = []
    for epoch in range(4):
        factors += [course.factor(2 * epoch + step, 2) for step in range(2)]
        assert course.ended(epoch + 1) == {"held_out": [1, 0, 0, 0][epoch]}
    assert factors == [1 / 3, 2 / 3, 1, 1, 1, 1, 1, 1 / 2]
    assert str(UntilBest(AtMost(24), linear, 3, lambda: 0).epochs) == "at most 24"
    assert str(course.epochs) == "4"


def test_a_rate_falls_as_the_schedule_says():
    scores = iter([1, 0, 0])
    course = UntilBest(AtMost(24), cosine, 0, lambda: next(scores))
    for _ in range(3):
        course.ended(1)
    assert [course.factor(12 + step, 4) for step in range(4)] == [cosine(0)(step, 4) for step in range(4)]


def test_a_course_is_its_scores():
    scores = iter([1, 2, 1, 1, 0])
    one, other = (UntilBest(AtMost(24), linear, 3, lambda: next(scores)) for _ in range(2))
    for _ in range(4):
        one.ended(1)
    other.load_state_dict(one.state_dict())
    assert other.epochs == one.epochs == 5
    assert [one.factor(step, 2) for step in range(8, 10)] == [other.factor(step, 2) for step in range(8, 10)]


def test_what_has_no_score_cannot_end_by_itself():
    assert course_of("joint", 3, "linear", 4, None).epochs == 3
    with pytest.raises(BadInput, match=r"^epochs: expected a number, found auto, and no .* stage joint .*; give a n"):
        course_of("joint", AtMost(24), "linear", 4, None)
