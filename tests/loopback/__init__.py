"""Servers of ours that speak other people's protocols, well or badly, on loopback."""
