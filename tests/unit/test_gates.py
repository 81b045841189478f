"""Gate policies by name: the shipped ones, those of files, and which one a call gets."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest
from click.testing import CliRunner

import powerctx_core as powerctx
from powerctx_core import ConfigError, InvalidRequest, Item
from powerctx_core.cli.program import program
from powerctx_core.config import load
from powerctx_core.gates import gate_named, installed_gates, is_path, read_gate
from powerctx_core.recall.gate import SHIPPED, V2, GatePolicy, check_floors
from powerctx_core.recall.policy import COMPATIBLE, POWERCTX
from powerctx_core.types import AdmissionFloor

FULL = """
# What our support desk needs.
policy_id = "acme.gate.v1"
max_rounds = 2
min_candidates = 3
min_top_score = 0.4
min_top_gap = 0
min_lexical_overlap = 0.25
strong_top = 0.8
gap_floor = 0.2
allow_expansion_with_rerank = true

[[expansion_floors]]
cosine = 0.2
matched = 2

[[expansion_floors]]
cosine = 0.1
"""


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Write a policy file and return its path."""

    def written(text: str | bytes, name: str = "gate.toml") -> Path:
        file = tmp_path / name
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return file

    return written


def test_a_file_is_a_policy(write: Callable[..., Path]) -> None:
    """Its keys are the fields, what is left out has its default, and what it means has one digest however written."""
    policy = GatePolicy(
        policy_id="acme.gate.v1",
        min_candidates=3,
        min_top_score=0.4,
        min_top_gap=0.0,
        min_lexical_overlap=0.25,
        strong_top=0.8,
        gap_floor=0.2,
        allow_expansion_with_rerank=True,
        expansion_floors=(AdmissionFloor(cosine=0.2, matched=2), AdmissionFloor(cosine=0.1)),
    )
    short = read_gate(write('policy_id = "acme.gate.v1"\n', "short.toml"))

    assert policy == read_gate(write(FULL))
    assert policy.digest == read_gate(write(b"\xef\xbb\xbf" + FULL.replace("\n", "\r\n").encode())).digest
    assert GatePolicy(policy_id="acme.gate.v1") == short
    assert attrs.evolve(V2, policy_id="acme.gate.v1").digest == short.digest
    assert policy.digest != short.digest


OK = 'policy_id = "acme.gate.v1"\n'


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "policy_id is required."),
        (OK + "min_candidate = 3", "min_candidate is unknown; did you mean 'min_candidates'? allowed: policy_id, max_"),
        (OK + "floor = {cosine = 0.3}", "floor is unknown; "),
        (OK + "min_top_score = " + "9" * 400, "min_top_score must be a number, not one of more than 64 bits."),
        (OK + "max_rounds = " + "9" * 400, "max_rounds must be a whole number, not one of more than 64 bits."),
        (OK + "max_rounds = 3", "max_rounds is 3; 0, 1 and 2 are allowed."),
        (OK + 'max_rounds = "2"', "max_rounds must be a whole number, not '2'."),
        (OK + "max_rounds = 1.0", "max_rounds must be a whole number, not 1.0."),
        (OK + "min_top_score = 1.5", "min_top_score is 1.5; a number from 0 to 1 is allowed."),
        (OK + "min_top_score = nan", "min_top_score must be a number, not nan."),
        (OK + "min_lexical_overlap = true", "min_lexical_overlap must be a number, not True."),
        (OK + "allow_expansion_with_rerank = 1", "allow_expansion_with_rerank must be true or false, not 1."),
        (OK + "min_candidates = 65", "min_candidates is 65; 0 to 64 are allowed."),
        (OK + "expansion_floors = []", "expansion_floors has 0 of them; 1 or 2, and one for each "),
        (OK + "[[expansion_floors]]\ncosine = 0.1", "expansion_floors has 1 of them; 1 or 2, and one for "),
        (OK + "expansion_floors = 0.1", "expansion_floors must be a list, not 0.1."),
        (OK + "[[expansion_floors]]\nkosine = 0.1\n[[expansion_floors]]", "expansion_floors[0].kosine is unknown; "),
        (OK + "[[expansion_floors]]\n[[expansion_floors]]\ncosine = 2", "expansion_floors[1]: cosine is 2; -1 to 1 "),
        (OK + "[[expansion_floors]]\nmatched = 0\n[[expansion_floors]]", "expansion_floors[0]: matched is 0; 1 to "),
        (
            OK + "[[expansion_floors]]\ncosine = 0.1\n[[expansion_floors]]\ncosine = 0.2",
            "cosine is 0.2 in expansion_floors[1] and 0.1 in expansion_floors[0]; a later round must not ask for more.",
        ),
        (
            OK + "[[expansion_floors]]\n[[expansion_floors]]\ncosine = 0.2",
            "cosine is 0.2 in expansion_floors[1] and none in expansion_floors[0]; a later round must not ",
        ),
        (
            OK + "[[expansion_floors]]\nidf_mass = 0.1\n[[expansion_floors]]\n",
            "expansion_floors[1] and expansion_floors[0] cannot be compared: name idf_mass in both of them, or ",
        ),
        ("policy_id = 3", "policy_id must be a string, not 3."),
        ('policy_id = "Acme gate"', "policy_id is 'Acme gate'; lower-case letters and digits joined by . or -, "),
        ('policy_id = "gates/acme"', "policy_id is 'gates/acme'; "),
        (f'policy_id = "{"a" * 129}"', "policy_id is "),
        ('policy_id = "off"', "policy_id is 'off'; "),
        ('policy_id = "v2"', "policy_id 'v2' is kept for policies that come with powerctx, as are v1, v2 … "),
        ('policy_id = "v3"', "policy_id 'v3' is kept for "),
        ('policy_id = "powercontext.recall-gate.v2"', "policy_id 'powercontext.recall-gate.v2' is kept for "),
        ('policy_id = "powerctx.mine"', "policy_id 'powerctx.mine' is kept for "),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_file(write: Callable[..., Path], text: str, sentence: str) -> None:
    """One sentence names the file, the key, and what is allowed."""
    file = write(text)
    with pytest.raises(ConfigError) as caught:
        read_gate(file)

    assert f"{file}: {sentence}" in str(caught.value)
    assert 1 == len(str(caught.value).splitlines())
    assert str(caught.value).endswith(".")


def test_everything_that_is_wrong_is_said(write: Callable[..., Path]) -> None:
    """One line each."""
    with pytest.raises(ConfigError) as caught:
        read_gate(write('policy_id = "x"\nmax_rounds = "1"\nmin_top_gap = "2"\nwhat = 1\n'))

    assert ["max_rounds", "min_top_gap", "what"] == re.findall(r"gate\.toml: (\w+) ", str(caught.value))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("policy_id = ", "is not valid TOML: "),
        (b'policy_id = "\xff"', "is not UTF-8 text (line 1); save it as UTF-8."),
        (None, "is not there; correct its path."),
        (
            "a = " + "[" * 5000 + "]" * 5000,
            "is not valid TOML: it is nested more than 32 levels deep; write it flatter.",
        ),
        ("a = " + "[" * 40 + "]" * 40, "is not valid TOML: it is nested more than 32 levels deep; write it flatter."),
        ("a" + ".a" * 3000 + " = 1", "is not valid TOML: it is nested more than 32 levels deep; write it flatter."),
        ("[" + "a." * 3000 + "a]", "is not valid TOML: it is nested more than 32 levels deep; write it flatter."),
        (OK + "max_rounds = " + "9" * 5000, "is not valid TOML: the number at line 2 is far too long; TOML has whole "),
    ],
)
def test_files_that_cannot_be_read(write: Callable[..., Path], text: str | bytes | None, sentence: str) -> None:
    """The sentence names the file."""
    file = write(text or "")
    if text is None:
        file.unlink()
    with pytest.raises(ConfigError, match=f"^{re.escape(str(file))} {re.escape(sentence)}"):
        read_gate(file)
    with pytest.raises(ConfigError, match=r"is a folder; name a file in it\.$"):
        read_gate(file.parent)


@pytest.mark.parametrize("kind", ["pipe", "device", "user", "no path"])
def test_what_is_no_file_of_anyone(tmp_path: Path, kind: str) -> None:
    """What would never end to be read, a user who is not there and no path at all are told, wherever they stand."""
    names = {"device": "/dev/zero", "user": "~no-such-user-at-all/x.toml", "no path": "a\0.toml"}
    file = names.get(kind, str(tmp_path / "pipe.toml"))
    if kind == "pipe":
        os.mkfifo(file)
    told = {"user": "is not there: no home is known for ~no-such-user-at-all; ", "no path": "is no path of a file."}
    sentence = told.get(kind, "is no regular file; name a file of TOML.")

    with pytest.raises(ConfigError) as opened:
        powerctx.open("memory://", plugins=(), settings={"recall.gate_files": [file]})
    asked = CliRunner().invoke(program, ["prepare", "x", "--scope", "s", "--store", "memory://", "--gate", file])

    assert sentence in str(opened.value)
    assert (asked.exit_code, sentence in asked.stderr) == (2, True), asked.output
    assert "Traceback" not in asked.stderr


@pytest.mark.parametrize(
    "text",
    ["a = " + "[" * 5000, "a" + ".a" * 3000 + " = 1", "x = " + "9" * 5000, 'recall.gate_files = ["~no-such-u/x"]'],
)
def test_a_settings_file_is_read_alike(tmp_path: Path, text: str) -> None:
    """What is too deep, too long or of nobody is one sentence there, and in a variable."""
    (tmp_path / "powerctx.toml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        load({}, {}, tmp_path, tmp_path)

    assert len(str(caught.value).splitlines()) == 1
    (tmp_path / "powerctx.toml").unlink()
    os.mkfifo(tmp_path / "powerctx.toml")
    with pytest.raises(ConfigError, match=r"powerctx\.toml is no regular file; "):
        load({}, {}, tmp_path, tmp_path)
    for setting in ("RECALL__MAX_CANDIDATES", "PARTS__X", "RECALL__GATE_FILES"):
        variable = text.partition(" = ")[2]
        with contextlib.suppress(ConfigError):
            load({}, {f"POWERCTX_{setting}": variable}, tmp_path / "none", tmp_path / "none")


@pytest.mark.parametrize("name", ["~no-such-user-at-all/secret", "a\0b"])
def test_a_secret_of_nobody_is_told_when_it_is_needed(tmp_path: Path, name: str) -> None:
    """A reference to a file that no one can have is like one to a file that is not there."""
    with pytest.raises(ConfigError, match=r"cannot be resolved: .* is no path of a file"):
        load({"recall.policy": f"$file:{name}"}, {}, tmp_path, tmp_path)


def test_two_files_of_one_id(write: Callable[..., Path], tmp_path: Path) -> None:
    """Both are named; the same file twice is one."""
    one, other = write(OK, "one.toml"), write(OK, "other.toml")
    again = tmp_path / "." / "sub" / ".." / "one.toml"
    (tmp_path / "sub").mkdir()
    with pytest.raises(ConfigError) as caught:
        installed_gates([one, other])

    assert f"{other}: policy_id 'acme.gate.v1' is that of {one}, too; rename one of them." == str(caught.value)
    assert [*SHIPPED, "acme.gate.v1"] == [*installed_gates([one, again])]


@pytest.mark.parametrize("name", ["gate.toml", "./gate", "/etc/gate", "gates/acme", "~/gate.toml"])
def test_paths(name: str) -> None:
    """A path is told from an id by its form alone, whatever files there are; in a call it is refused with advice."""
    assert is_path(name)
    with pytest.raises(InvalidRequest, match=r"A policy file is named by the setting recall\.gate_files"):
        gate_named(name, SHIPPED)


@pytest.mark.parametrize("name", ["off", "v2", "powercontext.recall-gate.v2", "acme.gate.v1", "toml"])
def test_ids(name: str) -> None:
    """An id never looks like a path."""
    assert not is_path(name)


THIN = [
    Item(scope_id="s", artifact_id=f"a{number}", text=text)
    for number, text in enumerate(("alpha beta one", "alpha two", "beta three", "gamma four", "delta five"))
]
QUERY = "alpha beta gamma delta"


def test_a_call_names_a_policy_of_the_deployment(write: Callable[..., Path]) -> None:
    """By its id, as any installed one; effort records it with its digest."""
    file = write(OK + "max_rounds = 0\n")
    with powerctx.open("memory://", plugins=(), settings={"recall.gate_files": [str(file)]}) as ctx:
        ctx.put(THIN)
        effort = ctx.prepare(QUERY, scope_id="s", gate="acme.gate.v1", policy=COMPATIBLE.policy_id).diagnostics.effort
        shipped = ctx.prepare(QUERY, scope_id="s", gate="v2").diagnostics.effort
        with pytest.raises(InvalidRequest) as caught:
            ctx.prepare(QUERY, scope_id="s", gate="acme.gate.v2")

    assert effort is not None
    assert shipped is not None
    assert ("acme.gate.v1", read_gate(file).digest, "at-max-rounds", 1) == (
        effort.policy_id,
        effort.policy_digest,
        effort.reason,
        effort.rounds,
    )
    assert (V2.policy_id, V2.digest, 2) == (shipped.policy_id, shipped.policy_digest, shipped.rounds)
    assert (
        "gate 'acme.gate.v2' is not installed; installed are off, powercontext.recall-gate.v2, v2, acme.gate.v1."
        == str(caught.value)
    )


def test_the_settings_choose_for_calls_that_do_not(write: Callable[..., Path]) -> None:
    """A call's own word goes first, ``off``, too; the recall policy is the named one, else the gate's."""
    settings = {"recall.gate": "v2", "recall.gate_files": [str(write(OK))]}
    with powerctx.open("memory://", plugins=(), settings=settings) as ctx:
        told = [ctx.prepare(QUERY, scope_id="s", **gate).diagnostics for gate in ({}, {"gate": "off"})]
        own = ctx.prepare(QUERY, scope_id="s", gate="acme.gate.v1").diagnostics
        named = ctx.prepare(QUERY, scope_id="s", policy=POWERCTX.policy_id).diagnostics
        found = ctx.find(QUERY, scope_id="s").diagnostics
    with powerctx.open("memory://", plugins=(), settings={"recall.policy": POWERCTX.policy_id}) as ctx:
        configured = ctx.prepare(QUERY, scope_id="s", gate="v2").diagnostics

    assert [(V2.policy_id, COMPATIBLE.policy_id), (None, POWERCTX.policy_id)] == [
        (each.effort and each.effort.policy_id, each.policy) for each in told
    ]
    assert ("acme.gate.v1", POWERCTX.policy_id) == (own.effort and own.effort.policy_id, own.policy)
    assert (V2.policy_id, POWERCTX.policy_id) == (named.effort and named.effort.policy_id, named.policy)
    assert (V2.policy_id, POWERCTX.policy_id) == (configured.effort and configured.effort.policy_id, configured.policy)
    assert POWERCTX.policy_id == found.policy


def test_find_takes_a_recall_policy(write: Callable[..., Path]) -> None:
    """By its id, as ``prepare`` does; an unknown one is answered with those that there are."""
    del write
    with powerctx.open("memory://", plugins=()) as ctx:
        assert COMPATIBLE.policy_id == ctx.find("x", scope_id="s", policy=COMPATIBLE.policy_id).diagnostics.policy
        for call in (ctx.find, ctx.prepare):
            with pytest.raises(InvalidRequest, match=r"^policy 'v9' is not installed; installed are ") as caught:
                call("x", scope_id="s", policy="v9")
            assert "policy" == caught.value.field


def test_own_floors_go_down_from_the_recall_policy() -> None:
    """What asks for more than the first round, or cannot be compared with it, is refused by the names of both."""
    floors = (AdmissionFloor(cosine=0.4), AdmissionFloor(cosine=0.2))
    high = GatePolicy(policy_id="acme", expansion_floors=floors)
    low = attrs.evolve(high, expansion_floors=(AdmissionFloor(cosine=0.2), AdmissionFloor()))
    ours = attrs.evolve(high, expansion_floors=(AdmissionFloor(idf_mass=0.15), AdmissionFloor(idf_mass=0.0)))

    check_floors(low, COMPATIBLE)
    check_floors(ours, POWERCTX)
    check_floors(attrs.evolve(high, max_rounds=0), POWERCTX)
    with pytest.raises(InvalidRequest) as caught:
        check_floors(high, COMPATIBLE)
    with pytest.raises(InvalidRequest, match=r"cannot be compared: name idf_mass in both of them, or in neither\.$"):
        check_floors(low, POWERCTX)

    assert (
        "cosine is 0.4 in the first expansion floor of gate acme and 0.3 in the floor of powercontext.recall.v2; "
        "a later round must not ask for more." == str(caught.value)
    )
    assert "gate" == caught.value.field


def test_floors_that_do_not_go_down_are_told_with_their_file(write: Callable[..., Path]) -> None:
    """In a call, whose recall policy is known then: the message names the file that asks for too much."""
    file = write(OK + "max_rounds = 1\n[[expansion_floors]]\ncosine = 0.4\n")
    with powerctx.open("memory://", plugins=(), settings={"recall.gate_files": [str(file)]}) as ctx:
        for policy in (COMPATIBLE.policy_id, POWERCTX.policy_id):
            with pytest.raises(InvalidRequest) as caught:
                ctx.prepare("x", scope_id="s", gate="acme.gate.v1", policy=policy)
            assert f"the first expansion floor of gate acme.gate.v1 in {file} and " in str(caught.value)
            assert caught.value.field == "gate"


def test_own_floors_are_used(write: Callable[..., Path]) -> None:
    """A round of a policy with floors of its own admits at these, not at those of the recall policy."""
    text = OK + "max_rounds = 1\n[[expansion_floors]]\nidf_mass = 0.2\n"
    lower = text.replace("v1", "v2").replace("0.2", "0.0")
    files = [str(write(text)), str(write(lower, "lower.toml"))]
    with powerctx.open("memory://", plugins=(), settings={"recall.gate_files": files}) as ctx:
        ctx.put([Item(scope_id="s", text="alpha one"), *(Item(scope_id="s", text=f"delta {n}") for n in range(9))])
        same, more = (
            ctx.prepare("alpha beta delta", scope_id="s", gate=f"acme.gate.v{n}").diagnostics.effort for n in (1, 2)
        )

    assert same is not None
    assert more is not None
    assert ((), (1,)) == (same.expansion_actions, same.candidates_by_round)
    assert (("admission",), (1, 10)) == (more.expansion_actions, more.candidates_by_round)


def test_a_settings_file_names_files_beside_it(write: Callable[..., Path], tmp_path: Path) -> None:
    """Relative paths count from its folder, wherever the program runs; those of a variable from the working folder."""
    write(OK)
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    (tmp_path / "powerctx.toml").write_text('[recall]\ngate_files = ["gate.toml"]\ngate = "acme.gate.v1"\n')
    settings = load({}, {}, deep, tmp_path).settings
    variable = load({}, {"POWERCTX_RECALL__GATE_FILES": "x.toml, y.toml"}, deep, tmp_path).settings

    assert (tmp_path / "gate.toml",) == settings.recall.gate_files
    assert (Path("x.toml"), Path("y.toml")) == variable.recall.gate_files
    with powerctx.open("memory://", plugins=(), settings=settings) as ctx:
        assert "acme.gate.v1" == ctx.prepare("x", scope_id="s").diagnostics.effort.policy_id  # type: ignore[union-attr]  # it is on


def test_a_deployment_with_a_bad_file_does_not_open(write: Callable[..., Path]) -> None:
    """It is told at the start, not in a call."""
    with pytest.raises(ConfigError, match=r"max_rounds is 3; 0, 1 and 2 are allowed\.$"):
        powerctx.open("memory://", plugins=(), settings={"recall.gate_files": [str(write(OK + "max_rounds = 3"))]})
    with pytest.raises(ConfigError, match=r"gate_files.* must be a list"):
        powerctx.open("memory://", plugins=(), settings={"recall.gate_files": {"a": 1}})
