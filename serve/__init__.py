"""Interfaces to `query` for people and programs: an HTTP API, a chat page, an MCP server and framework adapters. They
contain no retrieval logic.
"""
