"""What a user promises in a few words, written out as a contract: ``causal=True`` and the like."""

from __future__ import annotations

from typing import Any

from softlookup.terms import PROMISES, Contract, refuse_unknown


def written_out(
    target: Any, promised: dict[str, Any], init: dict[str, Any]
) -> tuple[Contract, dict[str, Any]]:
    """Return the contract, and the arguments with which a class is built.

    target: a function, module or class
    promised: fields of ``Contract``, and shorter: ``causal=True`` is "argument" where the call has a causal
        argument and "built-in" where it has none (a class whose constructor has one is then built with it);
        ``causal=False`` and ``mask=False`` are "none"; a dtype of torch is its name
    init: arguments of the constructor; what stands here is left as it is

    Raises: SoftlookupError for a promise that a contract does not have.

    >>> def attend(q, k, v, is_causal=False): ...
    >>> written_out(attend, {"causal": True}, {})[0].causal
    'argument'
    """
    refuse_unknown(promised, PROMISES, "attention: a contract")
    promised, init = dict(promised), dict(init)
    for name in ("mask", "causal"):
        if promised.get(name) is False:
            promised[name] = "none"
    if promised.get("dtype") is not None:
        promised["dtype"] = str(promised["dtype"]).removeprefix("torch.")
    if promised.get("causal") is True:
        argument, flag = _causal_names(target)
        promised["causal"] = "argument" if argument else "built-in"
        if flag and not argument:
            init.setdefault(flag, True)
    return Contract(**promised), init


def _causal_names(target: Any) -> tuple[str | None, str | None]:
    """Return the parameters that ask for causal attention: of the call, and of a class's constructor."""
    from softlookup.checker.parameter_roles import role_of
    from softlookup.checker.sketching import sketch_of

    sketch = sketch_of(target)
    call, constructor = (
        next((it.name for it in parameters if role_of(it.name) == "causal"), None)
        for parameters in (sketch.parameters, sketch.init_parameters if sketch.kind == "class" else ())
    )
    return call, constructor
