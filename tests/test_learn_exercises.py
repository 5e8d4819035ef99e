"""Every exercise: what is handed out yields exactly its rule, solutions are clean, mistakes are named."""

import pytest
from learn_corpus import EXERCISES, judged, wrong_solutions

from softlookup.catalog import find_rule
from softlookup.learn.exercise import NOT_WRITTEN
from softlookup.learn.judging import judge

#: What no line of the file shows.
WITHOUT_A_LINE = {NOT_WRITTEN, "name-missing", "syntax-error"}
MOST_WRONG = 6  # wrong solutions of each exercise, at least

each = pytest.mark.parametrize("exercise", EXERCISES, ids=lambda it: it.name)
every_wrong = pytest.mark.parametrize(
    ("exercise", "names", "text"),
    [
        pytest.param(it, names, text, id=f"{it.name}-{number}-{names[0]}")
        for it in EXERCISES
        for number, (names, text) in enumerate(wrong_solutions(it), 1)
    ],
)


@each
def test_what_is_handed_out_yields_exactly_its_name(exercise, tmp_path):
    judgement = judged(exercise, tmp_path / "task.py", exercise.task)
    assert judgement.names() == [exercise.as_given]
    assert judgement.state == ("not written" if exercise.as_given == NOT_WRITTEN else "wrong")


@each
def test_a_solution_is_clean(exercise, tmp_path):
    judgement = judged(exercise, tmp_path / "solution.py", exercise.solution)
    assert judgement.names() == []
    assert judgement.solved
    assert judgement.held


@each
def test_an_exercise_has_its_page(exercise):
    assert exercise.title
    assert exercise.goal
    assert exercise.checks
    assert exercise.question.endswith("?")
    assert len(exercise.hints) == 3
    assert len(set(exercise.hints)) == 3
    assert exercise.task.startswith(f'"""{exercise.place} {exercise.title}.\n')
    if exercise.kind == "find":
        assert find_rule(exercise.as_given).name == exercise.as_given


@each
def test_enough_wrong_solutions_are_tried(exercise):
    assert len(wrong_solutions(exercise)) >= MOST_WRONG


@every_wrong
def test_a_typical_mistake_is_refused_and_named(exercise, names, text, tmp_path):
    judgement = judged(exercise, tmp_path / "wrong.py", text)
    assert judgement.names() == names
    assert not judgement.solved
    assert all(remark.question for remark in judgement.remarks)
    for remark in judgement.remarks:
        assert not remark.finding.fix  # nobody is told the answer
        assert remark.veiled or remark.finding.line or remark.finding.name in WITHOUT_A_LINE


@pytest.mark.parametrize("exercise", EXERCISES[:2], ids=lambda it: it.name)
def test_a_child_judges_as_this_process_does(exercise, tmp_path):
    file = tmp_path / "solution.py"
    file.write_text(exercise.solution, encoding="utf-8")
    assert judge(exercise, file).solved
    file.write_text(exercise.task, encoding="utf-8")
    assert judge(exercise, file).names() == [exercise.as_given]
