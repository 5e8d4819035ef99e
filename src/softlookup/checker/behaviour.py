"""Judge a module whose projections were not found by its behaviour alone.

What holds without knowing the recipe: two evaluations agree, samples do not see each other, a causal layer
does not look ahead, a padding mask hides what it says, gradients flow where values do, training computes the
same when nothing is dropped. The lookup itself is not checked, and a note says so.
"""

from __future__ import annotations

from softlookup import catalog
from softlookup.checker.calls import Sketch, Target
from softlookup.checker.looks import EXPLAINING, LOOKS
from softlookup.checker.observed import Observed
from softlookup.checker.reading import Reading
from softlookup.checker.weight_names import named_weights
from softlookup.checker.wiring import Wiring
from softlookup.terms import Contract, Diagnosis, Finding, SoftlookupError, verdict_of

_WHAT_HELPS = (
    "name the projections q_proj, k_proj, v_proj and out_proj (or qkv), or wrap the part that attends in a "
    "module with such attributes and forward(x); --init sets what the constructor gets, a Contract what the "
    "inputs mean"
)


def examine_behaviour(target: Target, reading: Reading, declared: Contract, why: str) -> Diagnosis:
    """Examine a module with its own weights.

    why: a sentence that says what kept the lookup itself from being checked

    Raises: NoWayError when it cannot be called at all.
    """
    of = Observed(target, reading, declared)
    findings: list[Finding] = []
    for look in LOOKS:
        if not EXPLAINING & {finding.code for finding in findings}:
            findings += list(look(of))
    sketch, notes = of.sketch, (_unchecked(of, why), *_measured(of))
    contract = _contract(of)
    return Diagnosis(
        sketch.name,
        "module",
        sketch.file,
        sketch.line,
        contract,
        verdict_of(findings),
        tuple(findings),
        notes,
    )


def reason_of(problem: SoftlookupError) -> str:
    """Return in one sentence what a finder of projections said: what it missed, and what it met."""
    lines = [" ".join(line.split()) for line in str(problem).splitlines()]
    met = [line.removeprefix("got: ") for line in lines if line.startswith("got: ")]
    first = lines[0].partition(": ")[2] or lines[0]
    return f"{first.rstrip('.')} ({met[0]})." if met else first


def computed_weights(sketch: Sketch) -> str:
    """Return why no weight of a module can be chosen: each is computed from others; "" when they can."""
    names = [weight.name for weight in sketch.weights]
    computed = [name for name in names if "parametrizations" in name or name.endswith(("_orig", "_g"))]
    return f"its weights are computed from others ({', '.join(computed[:3])})." if computed else ""


def doubt_about(sketch: Sketch, wiring: Wiring) -> str:
    """Return why a wiring may not be all that a module does; "" when every weight has its role in it.

    A module that nothing explains is then judged by its behaviour, and not called wrong.
    """
    slots = (*wiring.q, *wiring.k, *wiring.v, *wiring.out)
    known = {slot.parameter for slot in slots} | set(wiring.zeroed)
    strange = [named.weight.name for named in named_weights(sketch) if named.weight.name not in known]
    return f"no role in the lookup was found for {', '.join(strange[:4])}." if strange else ""


def guesses_roles(sketch: Sketch, wiring: Wiring) -> bool:
    """Say whether no name tells which weights project what: a guess that nothing explains blames nobody."""
    known = {slot.parameter for slot in (*wiring.q, *wiring.k, *wiring.v)}
    return any(named.role is None for named in named_weights(sketch) if named.weight.name in known)


def follows_another(diagnosis: Diagnosis) -> bool:
    """Say whether the output has a row for each token of another input than the one that was taken to ask."""
    return bool(diagnosis.notes[0].evidence["rows follow"] != "x")


def _contract(of: Observed) -> Contract:
    """Return what was measured, beside what is declared."""
    mask = of.hiding.spelling if of.hiding else None
    causal = {True: "none", False: "built-in", None: of.reading.facts.get("causal")}[of.looks_ahead]
    facts = {
        **of.reading.facts,
        "layout": of.way.x.layout,
        "mask": "none" if mask is None else "allowed" if mask.kind == "lengths" else mask.kind,
        "mask_shape": " ".join(mask.axes) if mask else None,
        "causal": causal,
        "arguments": of.way.described() + (f", mask={mask.parameter}" if mask else ""),
    }
    return Contract(**facts, declared=frozenset(of.reading.facts) | of.declared.declared)


def _unchecked(of: Observed, why: str) -> Finding:
    """The note that says what was not checked, why, and what to write."""
    text = f"Only its behaviour was checked, not the lookup inside: {why}"
    if of.seen.reach < 1e-6:
        text += " With its own weights the output does not depend on the input."
    facts = {
        "rows follow": of.way.follows or "no input",
        "later tokens move earlier rows": {True: "yes", False: "no", None: "not seen"}[of.looks_ahead],
    }
    if (moves := _follows_order(of)) is not None:
        facts["rows move with their tokens"] = "yes" if moves else "no: it knows positions"
    return Finding("SL001", "not-callable", text, fix=_WHAT_HELPS, evidence=facts)


def _follows_order(of: Observed) -> bool | None:
    """Say whether rows change places with their tokens; None where that cannot be asked."""
    if of.way.follows != "x" or of.random or of.seen.first is None:
        return None
    turned = of.seen.moved(of.seen.first.flip(1), of.seen.output(of.seen.asked(of.seen.x.flip(1))))
    return None if turned is None else not turned.any()


def _measured(of: Observed) -> list[Finding]:
    """Notes about what nobody declared."""
    notes = []
    if of.random and of.random_line is None:
        text = "Two evaluations differ: it draws random numbers, and not for dropout."
        notes.append(Finding("SL801", catalog.find_rule("SL801").name, text))
    if of.looks_ahead is False and of.reading.facts.get("causal") != "built-in":
        text = "Later tokens never move earlier rows; no name or docstring says so."
        notes.append(Finding("SL121", catalog.find_rule("SL121").name, text))
    return notes
