"""What other programs and people reach: an HTTP API, a chat page, an MCP server. Thin skins over `query`."""
