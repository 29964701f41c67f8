"""What a Python worker imports."""

from regroup.dump import dump_on_hang
from regroup.record import record

__all__ = ["dump_on_hang", "record"]
__version__ = "0.1.0"
