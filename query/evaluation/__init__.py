"""Evaluation of retrieval: golden questions, and metrics on judged question sets."""
