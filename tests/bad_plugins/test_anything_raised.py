"""Whatever a plugin raises, at whatever moment: it is that plugin's failure, in one safe line, and all else works."""

from __future__ import annotations

import json

import pytest

ERRORS = """
import asyncio
SECRET = "postgresql://me:hunter2@host/db"

class Mute(Exception):
    def __str__(self): raise ValueError("no words")
    __repr__ = __str__

class Quitter(Exception):
    def __str__(self): raise SystemExit(9)
    __repr__ = __str__

class Abrupt(BaseException):
    def __str__(self): raise GeneratorExit

class Unprintable:
    def __repr__(self): raise MemoryError

ERRORS = {
    "mute": Mute(), "quitter": Quitter(), "abrupt": Abrupt(), "cancelled": asyncio.CancelledError(),
    "generator": GeneratorExit(), "exit": SystemExit(Unprintable()), "secret": RuntimeError("cannot reach " + SECRET),
    "exit-secret": SystemExit(SECRET), "bearer": RuntimeError("sent Authorization: Bearer hunter2hunter2"),
    "lines": RuntimeError("one\\nhunter2 \\x1b]0;title\\x07 two"), "lone": RuntimeError("\\udcff\\x00"),
}
"""
NAMES = (
    "mute",
    "quitter",
    "abrupt",
    "cancelled",
    "generator",
    "exit",
    "secret",
    "exit-secret",
    "bearer",
    "lines",
    "lone",
)
FAULT = {"import": "raise ERRORS[{name!r}]\n", "hook": "@hookimpl\ndef powerctx_renderers(): raise ERRORS[{name!r}]\n"}


@pytest.mark.parametrize("moment", FAULT)
def test_the_program_always_starts(site, moment):
    """A fresh interpreter lists every plugin that raises when imported or asked, each with a reason in one line."""
    for name in NAMES:
        source = "from powerctx_core import hookimpl\n" + ERRORS + FAULT[moment].format(name=name)
        site.install(f"raising-{name}", source)

    listed = site.run("from powerctx_core.cli.program import program; program(['plugins', '--json'])")
    checked = [
        site.run(f"from powerctx_core.cli.program import program; program(['check', 'raising-{name}'])")
        for name in ("quitter", "exit-secret")
    ]

    assert (0, "") == (listed.returncode, listed.stderr)
    found = {each["name"]: each for each in json.loads(listed.stdout)}
    for name in NAMES:
        status = found[f"raising-{name}"]
        assert "failed" == status["state"]
        assert status["reason"].isprintable()
    assert "ok" == found["good"]["state"]
    assert "hunter2" not in listed.stdout
    for ended in checked:
        assert 1 == ended.returncode
        assert "error: raising-" in ended.stderr
        assert "hunter2" not in ended.stderr


USED = """
import json, logging, sys
import powerctx_core as powerctx
from powerctx_core.errors import PowerctxError
logging.basicConfig(level=logging.WARNING, stream=sys.stdout)

def told(call):
    try:
        call()
    except PowerctxError as error:
        return type(error).__name__ + ": " + str(error)
    return "answered"

def opened(**settings):
    ctx = powerctx.open("memory://", settings=settings)
    ctx.put([powerctx.Item(scope_id="s", text="We chose SQLite because it needs no server.", family=family)
             for family in ("memory", "raising")])
    return ctx

seen = {}
ask = dict(scope_id="s")
for moment in ("made", "used"):
    import raising_plugin
    raising_plugin.MOMENT = moment
    for name, error in raising_plugin.ERRORS.items():
        raising_plugin.ERROR = error
        row = seen[f"{name} {moment}"] = {}
        with opened() as ctx:
            row["family"] = told(lambda: ctx.prepare("Why SQLite?", **ask, families=["memory", "raising"]))
            row["renderer"] = told(lambda: ctx.prepare("Why SQLite?", **ask, renderer="raising"))
        with opened(tokens={"estimator": "raising"}) as ctx:
            row["estimator"] = told(lambda: ctx.prepare("Why SQLite?", **ask, max_tokens=500))
        def embed():
            with opened(embedder="raising") as ctx:
                assert ctx.prepare("Why SQLite?", **ask).content
        row["embedder"] = told(embed)
        def observe():
            with opened(sinks=["raising"]) as ctx:
                assert ctx.prepare("Why SQLite?", **ask).content
        row["sink"] = told(observe)
        row["store"] = told(lambda: powerctx.open("raising://x"))
        with opened() as ctx:
            row["after"] = told(lambda: ctx.prepare("Why SQLite?", **ask))
print("SEEN " + json.dumps(seen))
"""

RAISING = """
from powerctx_core import *
from powerctx_core.families import StoredFamily
MOMENT, ERROR = "used", None

def fails(moment):
    if MOMENT == moment: raise ERROR

class Family(StoredFamily):
    def __init__(self, record, settings):
        fails("made")
        super().__init__(record, settings)
    def retrieve(self, request, call): fails("used")

class Renderer:
    def __init__(self, settings): fails("made")
    def open(self, selection): return ""
    def entry(self, candidate, ordinal, selection, *, cut): fails("used")
    def escape(self, text): return text
    def close(self, selection): return ""

class Estimator:
    def __init__(self, settings): fails("made")
    def cost(self, text): fails("used")

class Embedder:
    def __init__(self, settings): fails("made")
    profile = EmbeddingProfile(fingerprint="raising", dimensions=4, languages=("en",), noise=0.1, match=0.5)
    def embed(self, request): fails("used")

class Sink:
    def __init__(self, settings): fails("made")
    def observe(self, event): fails("used")

class Store:
    def __init__(self, url, settings): fails("made")
    @property
    def catalogue(self): fails("used")
    @property
    def vectors(self): fails("used")
    def status(self): fails("used")
    def close(self): fails("used")

@hookimpl
def powerctx_families(): yield FamilySpec(name="raising", factory=Family)
@hookimpl
def powerctx_renderers(): yield RendererSpec(name="raising", factory=Renderer)
@hookimpl
def powerctx_token_estimators(): yield TokenEstimatorSpec(name="raising", factory=Estimator)
@hookimpl
def powerctx_embedders(): yield EmbedderSpec(name="raising", factory=Embedder)
@hookimpl
def powerctx_sinks(): yield SinkSpec(name="raising", factory=Sink)
@hookimpl
def powerctx_stores(): yield StoreSpec(name="raising", schemes=("raising",), factory=Store)
"""


def test_parts_may_raise_anything(site):
    """An error of any kind, from a factory or a method of any part, ends as one named error, or as words without it."""
    site.install("raising", RAISING + ERRORS)

    ended = site.run(USED)

    assert "" == ended.stderr
    assert "hunter2" not in ended.stdout.replace("lines", "")
    seen = json.loads(ended.stdout.partition("SEEN ")[2])
    assert {f"{name} {moment}" for name in NAMES for moment in ("made", "used")} == set(seen)
    for case, row in seen.items():
        assert "answered" == row.pop("after"), case
        free = {"embedder", "sink"} if case.endswith("used") else set()
        for part, told in row.items():
            if part in free:
                assert "answered" == told, (case, part)
            else:
                assert f"{part} 'raising' of acme-raising 1.0" in told, (case, part, told)
                assert told.isprintable(), (case, part, told)
