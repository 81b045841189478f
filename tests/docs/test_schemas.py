"""The published JSON Schemas are those of the types.

``python tests/docs/test_schemas.py --write`` makes them anew.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any, get_args

import jsonschema
import pytest

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
