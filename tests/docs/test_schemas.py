"""The published JSON Schemas are those of the types.

``python tests/docs/test_schemas.py --write`` makes them anew.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import jsonschema
import pytest

import powerctx_core as powerctx
from powerctx_core import InvalidRequest, wire
from powerctx_core.page.words import FATES
from powerctx_core.receipt import v1, v2
from powerctx_core.receipt.schema import json_schema
from powerctx_core.receipt.v1 import ReceiptV1
from powerctx_core.receipt.v2 import ReceiptV2

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "schemas"
COMMAND = "python tests/docs/test_schemas.py --write"
SCHEMAS: dict[str, Any] = {"receipt-v1": ReceiptV1, "receipt-v2": ReceiptV2}

pytestmark = pytest.mark.docs


def written(cls: Any) -> str:
    """Return the schema as it is published."""
    return json.dumps(json_schema(cls), ensure_ascii=False, indent=2) + "\n"


@pytest.mark.parametrize("name", SCHEMAS)
def test_published(name: str) -> None:
    """Each file is what the types give, and a valid schema; nothing else is in the folder."""
    file = FOLDER / f"{name}.json"

    assert written(SCHEMAS[name]) == file.read_text("utf-8"), f"docs/schemas is not as the types are; run {COMMAND}"
    jsonschema.Draft202012Validator.check_schema(json.loads(file.read_text("utf-8")))
    assert sorted(f"{name}.json" for name in SCHEMAS) == sorted(file.name for file in FOLDER.iterdir())


def _receipts() -> list[dict[str, Any]]:
    with powerctx.open("memory://", plugins=()) as ctx:
        ctx.put([powerctx.Item(scope_id="s", artifact_id=f"a{n}", text=f"alpha {n}") for n in range(4)])
        asked = {"scope_id": "s", "gate": "v2", "max_items": 2, "include_receipt": True}
        made = [ctx.prepare("alpha", receipt_version=version, **asked).receipt for version in (1, 2)]
    return [json.loads(json.dumps(wire.to_json(each))) for each in made]


def _places(form: Any) -> Iterator[tuple[Any, Any]]:
    """Give every mapping or list in *form* with each of its keys or positions."""
    if isinstance(form, dict | list):
        for key, value in list(form.items() if isinstance(form, dict) else enumerate(form)):
            yield form, key
            yield from _places(value)


ODD: list[Any] = [None, -1, 0, 1.5, 10**400, True, "", "sha256:zz", "sha256:" + "0" * 64 + "\n", "\ud800", [], {}, "v1",
                  [None] * 40, {"a": {}}]  # fmt: skip


@pytest.mark.parametrize(("version", "cls"), list(enumerate(SCHEMAS.values())), ids=list(SCHEMAS))
def test_reading_is_as_strict_as_the_schema(version: int, cls: Any) -> None:
    """What a schema refuses is refused: any value replaced by an odd one, any key left out, any key added."""
    form = _receipts()[version]
    schema = jsonschema.Draft202012Validator(json_schema(cls), format_checker=jsonschema.FormatChecker())
    wire.structure(cls, form)
    for holder, key in list(_places(form)):
        before = holder[key]
        for odd in ODD:
            holder[key] = odd
            _refused_alike(schema, cls, form)
        holder[key] = before
        if isinstance(holder, dict):
            del holder[key]
            _refused_alike(schema, cls, form)
            for more in ("more", 1):
                with pytest.raises(InvalidRequest):
                    wire.structure(cls, {**form, more: 2})
            holder[key] = before


def _refused_alike(schema: Any, cls: Any, form: Any) -> None:
    try:
        wire.structure(cls, form)
    except InvalidRequest:
        return
    schema.validate(form)


def test_every_reason_is_explained() -> None:
    """The page says what each reason means and which version has it, and the words of explanations know it, too."""
    page = (FOLDER.parent / "receipts.md").read_text("utf-8")
    told = {
        name: version
        for names, version in re.findall(r"^\| ((?:`\w+`(?:, )?)+) \| (both|2) \| ", page, re.MULTILINE)
        for name in re.findall(r"\w+", names)
    }
    first, second = set(get_args(v1.Reason)), set(get_args(v2.Reason))

    assert told == {name: "both" if name in first else "2" for name in second}
    assert second <= set(FATES)


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit(f"usage: {COMMAND}")
    for name, cls in SCHEMAS.items():
        (FOLDER / f"{name}.json").write_text(written(cls), encoding="utf-8")
