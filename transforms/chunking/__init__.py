"""Documents → chunks. `chunker.py` is the door; one module for each way to cut, all of them on `layout.py` and `packing.py`."""
