"""What a Python worker imports."""

from regroup.record import record

__all__ = ["record"]
__version__ = "0.1.0"
