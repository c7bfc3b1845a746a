"""A key has one lock, which holds up no other key and is kept only as long as somebody has it."""

from almanac.core.keyed_locks import KeyedLocks


def test_a_key_has_one_lock_as_long_as_somebody_has_it() -> None:
    locks = KeyedLocks()
    with locks.lock_of("one") as is_taken:
        assert is_taken
        assert not locks.lock_of("one").acquire(blocking=False)
        assert locks.lock_of("other").acquire(blocking=False)
        assert set(locks._locks) == {"one"}
    assert not locks._locks
    with locks.lock_of("one"):
        pass
