"""An MCP server on the official Python SDK, which speaks both eras of the protocol.

    python server.py                     over standard input and output
    python server.py PORT                over streamable HTTP
"""

import sys
from typing import Annotated, Literal

import anyio
from mcp.server.mcpserver import Context, Elicit, MCPServer, Resolve
from mcp.types import ToolAnnotations
from pydantic import BaseModel

server = MCPServer("shop")


class Size(BaseModel):
    """What the user is asked."""

    size: Literal["small", "large"]
    note: str = "none"


class Sure(BaseModel):
    """The second question."""

    sure: bool


async def which_size(item: str) -> Elicit[Size]:
    """Ask for the size."""
    return Elicit(f"Which size of {item}?", Size)


async def is_sure(item: str, size: Annotated[Size, Resolve(which_size)]) -> Elicit[Sure]:
    """Ask again, now that the size is known."""
    return Elicit(f"Really a {size.size} {item}?", Sure)


@server.tool(annotations=ToolAnnotations(readOnlyHint=True))
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
async def order(
    item: str,
    size: Annotated[Size, Resolve(which_size)],
    sure: Annotated[Sure, Resolve(is_sure)],
) -> str:
    """Order something."""
    return f"ordered: {item}, {size.size}, note {size.note}, sure {sure.sure}"


@server.tool()
async def count(to: int, ctx: Context) -> str:
    """Count, and report each number."""
    for number in range(1, to + 1):
        await ctx.report_progress(number, to, f"at {number}")
        await anyio.sleep(0.15)
    return f"counted to {to}"


@server.tool()
def fail() -> str:
    """Fail."""
    raise ValueError("out of stock")


if len(sys.argv) > 1:
    server.run("streamable-http", port=int(sys.argv[1]))
else:
    server.run()
