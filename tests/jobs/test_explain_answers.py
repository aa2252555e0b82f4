"""`explain` of runs whose protocol asks for no attribute: what the model answered, and what policies decide."""

from tests.jobs.made import privsieve
from tests.making import Capture
from tests.reports.evaluation.conftest import BINARY, SEVERITY, MakeRun, answered, make_run, scored

__all__ = ["make_run"]  # the fixture


def test_the_score_of_the_model_is_shown_and_what_policies_make_of_it(make_run: MakeRun, capsys: Capture) -> None:
    run = make_run([("a", scored(0.7)), ("b", scored(0.1))], SEVERITY)
    assert privsieve("explain", run, "a.jpg") == 0
    shown = capsys.readouterr().out
    assert "score        0.700, as the model gave it\n" in shown
    assert "policy strict: drop, by the rule sensitive-or-linkable\n" in shown
    assert "here private = true\n" in shown
    assert "policy identity-documents-only: none, by the rule (none)\n" in shown
    assert "filter refuses this policy for the run: identity-documents-only: rule " in shown


def test_a_key_without_its_ending_is_answered_with_the_whole_key(make_run: MakeRun, capsys: Capture) -> None:
    run = make_run([("d050", scored(0.7)), ("d051", scored(0.1))], SEVERITY)
    assert privsieve("explain", run, "d050") == 2
    assert 'the run has no image "d050" (did you mean "d050.jpg"?); ' in capsys.readouterr().err


def test_the_probability_of_a_yes_is_shown(make_run: MakeRun, capsys: Capture) -> None:
    run = make_run([("a", answered(True, 0.875))], BINARY)
    assert privsieve("explain", run, "a.jpg") == 0
    assert "probability  0.875 that it is private\n" in capsys.readouterr().out


def test_a_report_says_what_the_protocol_asks(make_run: MakeRun, capsys: Capture) -> None:
    run = make_run([("a", scored(0.7)), ("b", scored(0.1))], SEVERITY)
    assert privsieve("report", run) == 0
    shown = capsys.readouterr().out
    assert "attributes  the engine assesses 0 of 22\n" in shown
    assert "its protocol asks for none, only whether a picture is private, or how severe it is" in shown
    assert "the real ones can be higher" not in shown
