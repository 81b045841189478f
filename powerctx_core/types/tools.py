"""What an agent can read on demand, and the tool it reads with."""

from __future__ import annotations

from typing import Any

import attrs

from powerctx_core.types.address import Address

__all__ = ["DELIVERIES", "NOTHING_TO_READ", "TOOL_NAME", "Readable", "ToolList"]

DELIVERIES = ("inject", "split")
"""How a pack reaches the model."""
TOOL_NAME = "powerctx_read"


@attrs.frozen(kw_only=True)
class Readable:
    """One item that can be read.

    Attributes:
        abstract: one line about it, as the tool's description shows it.
    """

    address: Address
    abstract: str


@attrs.frozen(kw_only=True)
class ToolList:
    """What is left for the agent to read when it wants to.

    Attributes:
        items: in the order of the description.
        description: what the model is told of the tool: how to use it, and a line for each item; empty without items.
    """

    items: tuple[Readable, ...]
    description: str

    def mcp(self) -> dict[str, Any] | None:
        """Return the tool as MCP lists it (``tools/list``), or ``None`` when there is nothing to read."""
        if not self.items:
            return None
        return {"name": TOOL_NAME, "description": self.description, "inputSchema": _schema()}

    def openai(self) -> dict[str, Any] | None:
        """Return the tool as the ``tools`` of OpenAI's chat completions take it, or ``None`` without items."""
        if not self.items:
            return None
        function = {"name": TOOL_NAME, "description": self.description, "parameters": _schema()}
        return {"type": "function", "function": function}


NOTHING_TO_READ = ToolList(items=(), description="")
"""The list of a split delivery without anything in it."""


def _schema() -> dict[str, Any]:
    """Return the JSON Schema of the tool's arguments; URIs stand in the description, and are not paid for twice."""
    uri = {"type": "string", "description": "One of the URIs in the description of this tool."}
    return {"type": "object", "properties": {"uri": uri}, "required": ["uri"], "additionalProperties": False}
