"""The learner's track around the exercises: the folder, the progress, the commands."""

import json
import subprocess
import sys
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from click.testing import CliRunner

from softlookup.cli import main
from softlookup.learn.exercise import all_exercises, find_exercise
from softlookup.learn.judgement import Judgement, Remark
from softlookup.learn.lessons import LESSONS
from softlookup.learn.place import Place
from softlookup.learn.progress import FILE, Card, Progress
from softlookup.learn.repetition import PAUSES, answered, chosen
from softlookup.terms import Finding, SoftlookupError

CAUSAL = find_exercise("causal-mask")
WRONG = """
import torch
def make_causal_allowed_mask(seq_len):
    return torch.ones(1, 1, seq_len, seq_len, dtype=torch.bool).triu()
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    place, _ = Place.made(tmp_path / "lessons")
    monkeypatch.chdir(place.folder)
    return place


def run(*words, answer=None):
    return CliRunner().invoke(main, ["learn", *words], input=answer, catch_exceptions=False)


def test_every_lesson_has_exercises_in_order():
    numbers = [(it.lesson.number, it.number) for it in all_exercises()]
    assert numbers == sorted(set(numbers))
    assert {number for number, _ in numbers} == {lesson.number for lesson in LESSONS}
    for lesson in LESSONS:
        its = [number for at, number in numbers if at == lesson.number]
        assert its == list(range(1, len(its) + 1))


def test_there_are_enough_exercises_of_each_kind():
    kinds = [it.kind for it in all_exercises()]
    assert len(kinds) >= 24
    assert min(kinds.count(kind) for kind in ("write", "find", "predict")) >= 2


def test_an_exercise_is_found_by_name_number_and_file():
    for words in ("causal-mask", "3.1", str(CAUSAL.path), "1_causal_mask.py", "causal_mask"):
        assert find_exercise(words) == CAUSAL


def test_an_unknown_exercise_is_answered_with_the_nearest_name():
    with pytest.raises(SoftlookupError, match="did you mean causal-mask"):
        find_exercise("causl-mask")


def test_init_hands_out_every_exercise(place):
    for exercise in all_exercises():
        assert place.file(exercise).read_text(encoding="utf-8") == exercise.task


def test_init_leaves_what_is_there(place):
    place.file(CAUSAL).write_text("mine", encoding="utf-8")
    place.progress.of(CAUSAL.name).tries = 3
    place.progress.write()
    missing = place.file(all_exercises()[0])
    missing.unlink()
    again, new = Place.made(place.folder)
    assert new == [all_exercises()[0]]
    assert place.file(CAUSAL).read_text(encoding="utf-8") == "mine"
    assert again.progress.of(CAUSAL.name).tries == 3


def test_a_folder_inside_is_the_same_place(place):
    assert Place.around(place.file(CAUSAL).parent).folder == place.folder


def test_elsewhere_the_words_say_how_to_begin(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run()
    assert result.exit_code == 2
    assert "softlookup learn init" in result.output


def test_without_a_command_it_says_where_one_is(place):
    output = run().output
    assert "<- you are here" in output
    assert all_exercises()[0].title in output
    assert "softlookup learn check" in output


def test_check_names_the_mistake_and_its_line_and_not_the_answer(place):
    place.file(CAUSAL).write_text(WRONG, encoding="utf-8")
    result = run("check", "3.1")
    assert result.exit_code == 1
    assert "future-visible  line 4" in result.output
    assert "Think:" in result.output
    assert "tril" not in result.output.replace("triu", "")
    assert Progress(place.folder).of(CAUSAL.name).met == ["future-visible"]


def test_check_of_a_solved_exercise_says_what_is_next(place):
    first = all_exercises()[0]
    place.file(first).write_text(first.solution, encoding="utf-8")
    result = run("check")
    assert result.exit_code == 0
    assert "solved" in result.output
    assert all_exercises()[1].title in result.output
    assert Progress(place.folder).of(first.name).solved_on == date.today().isoformat()


def test_a_file_that_python_cannot_read_is_said_with_its_line(place):
    place.file(CAUSAL).write_text("import torch\ndef make(:\n", encoding="utf-8")
    output = run("check", "3.1").output
    assert "syntax-error  line 2" in output


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("while True: pass", "time limit"),
        ("import os; os._exit(3)", "ended its own process"),
        ("1 / 0", "ZeroDivisionError"),
        ("x = 1", "name-missing"),
    ],
    ids=["endless", "exits", "raises", "empty"],
)
def test_a_file_that_does_not_run_is_said_so(text, words, tmp_path):
    from softlookup.learn.judging import judge

    file = tmp_path / "1_causal_mask.py"
    file.write_text(text, encoding="utf-8")
    judgement = judge(CAUSAL, file, seconds=6.0)
    assert judgement.state == "wrong"
    said = judgement.remarks[0].finding
    assert words in f"{said.name} {said.summary}"


def test_hints_come_one_after_another(place):
    for number in (1, 2, 3, 3):
        output = run("hint", "3.1").output
        assert [f"hint {i} of 3" in output for i in (1, 2, 3)] == [i <= number for i in (1, 2, 3)]
    assert Progress(place.folder).of(CAUSAL.name).hints == 3


def test_the_solution_is_shown_only_after_a_yes(place):
    refused = run("solution", "3.1", answer="n\n")
    assert "torch.tril" not in refused.output
    assert not Progress(place.folder).of(CAUSAL.name).solution_shown
    assert "torch.tril" in run("solution", "3.1", answer="y\n").output
    assert Progress(place.folder).of(CAUSAL.name).solution_shown


def test_reset_keeps_what_was_written(place):
    place.file(CAUSAL).write_text(WRONG, encoding="utf-8")
    assert "before_reset_1" in run("reset", "3.1", "--yes").output
    assert place.file(CAUSAL).read_text(encoding="utf-8") == CAUSAL.task
    place.file(CAUSAL).write_text("second", encoding="utf-8")
    run("reset", "3.1", "--yes")
    kept = sorted(place.file(CAUSAL).parent.glob("*before_reset*"))
    assert [it.read_text(encoding="utf-8") for it in kept] == [WRONG, "second"]


def test_progress_as_json_counts_tries(place):
    place.progress.note(Judgement(CAUSAL.name, "", "wrong", (Remark(Finding("", "self-hidden", "words")),)))
    data = json.loads(run("progress", "--format", "json").output)
    assert data["exercises"]["causal-mask"]["tries"] == 1
    assert data["exercises"]["causal-mask"]["met"] == ["self-hidden"]
    assert "self-hidden" in run("progress").output


def test_an_interruption_while_writing_leaves_the_old_progress(place, monkeypatch):
    place.progress.of(CAUSAL.name).tries = 7
    place.progress.write()
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    place.progress.of(CAUSAL.name).tries = 8
    with pytest.raises(KeyboardInterrupt):
        place.progress.write()
    assert Progress(place.folder).of(CAUSAL.name).tries == 7
    assert [it.name for it in place.folder.iterdir() if it.name.startswith(".progress")] == []


def test_a_spoilt_progress_file_is_said_and_left(place):
    (place.folder / FILE).write_text("{", encoding="utf-8")
    result = run()
    assert result.exit_code == 2
    assert "progress could not be read" in result.output
    assert (place.folder / FILE).read_text(encoding="utf-8") == "{"


def test_missed_questions_come_first_and_known_ones_after_ever_longer_pauses(place):
    from softlookup.learn.quiz.question import all_questions

    today = date(2026, 1, 1)
    known, missed = all_questions()[:2]
    progress = place.progress
    for _ in range(2):
        answered(progress.card(known.name), True, today)
    answered(progress.card(missed.name), False, today)
    assert progress.card(known.name).due == f"2026-01-{1 + PAUSES[2]:02d}"
    order = chosen(all_questions(), progress, len(all_questions()), today)
    assert order[0] == missed
    assert order[-1] == known
    answered(progress.card(known.name), False, today)
    assert replace(progress.card(known.name), right=0, wrong=0) == Card(box=0, due="2026-01-01")


def test_the_quiz_explains_wrong_answers_and_asks_them_again(place):
    result = run("quiz", "--lesson", "1", "--count", "1", answer="a\n" * 4)
    assert result.exit_code == 0
    cards = [it for it in Progress(place.folder).cards.values() if it.right or it.wrong]
    assert len(cards) == 1
    assert ("Right." in result.output) or ("It is:" in result.output and "Once more" in result.output)


def test_every_question_has_one_answer_and_a_reason_for_each():
    from softlookup.learn.quiz.question import all_questions

    questions = all_questions()
    assert len(questions) >= 32
    assert len({it.name for it in questions}) == len(questions)
    for question in questions:
        assert len({choice.text for choice in question.choices}) >= 3
        assert all(choice.why.endswith(".") for choice in question.choices)


def test_notebooks_hold_the_same_code(place):
    import nbformat

    from softlookup.learn.notebooks import write_notebooks

    written = write_notebooks(place)
    assert len(written) == len(all_exercises())
    assert write_notebooks(place) == []
    notebook = nbformat.read(place.file(CAUSAL).with_suffix(".ipynb"), as_version=4)
    nbformat.validate(notebook)
    code = next(cell.source for cell in notebook.cells if cell.source.startswith("%%exercise"))
    assert code.splitlines()[0] == "%%exercise causal-mask"
    body = code.partition("\n")[2]
    assert body.strip() in CAUSAL.task


def test_a_cell_is_judged_as_a_file_is(place):
    from softlookup.learn.jupyter import judged_cell

    assert "future-visible" in judged_cell(CAUSAL, WRONG)
    assert "solved" in judged_cell(CAUSAL, CAUSAL.solution)


def test_learning_needs_no_torch_until_a_file_is_judged(place):
    code = (
        "import sys; from click.testing import CliRunner; from softlookup.cli import main\n"
        "for words in ([], ['hint'], ['progress'], ['solution', '--yes']):\n"
        "    assert CliRunner().invoke(main, ['learn', *words]).exit_code == 0\n"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_class_gets_a_row_a_learner_whatever_the_files_do(tmp_path):
    files = {
        "ada__causal-mask.py": CAUSAL.solution,
        "bob__causal-mask.py": WRONG,
        "cat__causal-mask.py": "import os; os._exit(1)",
        "dan__causal-mask.py": "def (",
        "eve__causal-mask.py": "while True: pass",
        "fay__something-else.py": "x = 1",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    folder = tmp_path / "gil" / "work"
    folder.mkdir(parents=True)
    (folder / "1_causal_mask.py").write_text(CAUSAL.solution, encoding="utf-8")
    result = CliRunner().invoke(
        main, ["grade", str(tmp_path), "--format", "json", "--jobs", "2", "--timeout", "8"]
    )
    rows = {row["learner"]: row for row in json.loads(result.output)}
    names = {who: row["exercises"]["causal-mask"]["names"] for who, row in rows.items() if row["exercises"]}
    assert sorted(rows) == ["ada", "bob", "cat", "dan", "eve", "fay", "gil"]
    assert rows["ada"]["solved"] == rows["gil"]["solved"] == 1
    assert names["bob"] == ["future-visible"]
    assert names["cat"] == names["eve"] == ["not-callable"]
    assert names["dan"] == ["syntax-error"]
    assert rows["fay"]["unknown_files"] == [str(Path("fay__something-else.py"))]


def test_a_spreadsheet_takes_names_for_text():
    from softlookup.learn.grading import Grade, Row, as_csv

    lines = as_csv([Row("=1+1", {"causal-mask": Grade("wrong", ("self-hidden",))})]).splitlines()
    assert lines == ["learner,solved,causal-mask,unknown files", "'=1+1,0,wrong: self-hidden,"]


def test_watching_judges_each_save_in_a_process_that_waits_beforehand(place, monkeypatch):
    import watchfiles

    from softlookup.learn.watching import watched

    first = all_exercises()[0]

    def saves(folder, **_):
        assert folder == place.folder
        place.file(CAUSAL).write_text(WRONG, encoding="utf-8")
        yield {(watchfiles.Change.modified, str(place.file(CAUSAL)))}
        place.file(CAUSAL).write_text("def (", encoding="utf-8")
        yield {(watchfiles.Change.modified, str(place.file(CAUSAL)))}
        (place.folder / "notes.py").write_text("", encoding="utf-8")
        yield {(watchfiles.Change.added, str(place.folder / "notes.py"))}
        place.file(CAUSAL).write_text(CAUSAL.solution, encoding="utf-8")
        yield {(watchfiles.Change.modified, str(place.file(CAUSAL)))}

    monkeypatch.setattr(watchfiles, "watch", saves)
    seen = [(exercise.name, judgement.names()) for exercise, judgement in watched(place)]
    assert seen == [
        (first.name, [first.as_given]),
        (CAUSAL.name, ["future-visible"]),
        (CAUSAL.name, ["syntax-error"]),
        (CAUSAL.name, []),
    ]


def test_without_the_package_that_watches_the_words_say_what_to_install(place, monkeypatch):
    monkeypatch.setitem(sys.modules, "watchfiles", None)
    result = run("watch")
    assert result.exit_code == 2
    assert "softlookup[learn]" in result.output
