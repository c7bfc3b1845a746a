"""The nouns: what is declared, what travels between the rooms, what is reported, what can go wrong."""
