"""A pin holds as long as somebody has it."""

from pathlib import Path

from almanac.core.pins import Pin, alone_with


def test_a_pin_holds_until_it_is_closed_or_nobody_has_it(tmp_path: Path) -> None:
    pins = [Pin(tmp_path), Pin(tmp_path)]
    with alone_with(tmp_path) as alone:
        assert not alone
    pins[0].close()
    pins[0].close()
    assert (pins[0].is_in_place(), pins[1].is_in_place()) == (False, True)
    with alone_with(tmp_path) as alone:
        assert not alone
    pins.clear()  # as an index that is dropped without being closed
    with alone_with(tmp_path) as alone:
        assert alone
