"""Answering, from hits to an answer: prompt, generated or extracted text, citations, refusal."""
