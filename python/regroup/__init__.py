"""What a Python worker imports, and what puts `regroup run` in the place of torch.distributed.run."""

from regroup.beat import heartbeat, heartbeat_stop
from regroup.dump import dump_on_hang
from regroup.launch import install
from regroup.record import record
from regroup.timer import TimerError, configure, expires

__all__ = ["TimerError", "configure", "dump_on_hang", "expires", "heartbeat", "heartbeat_stop", "install", "record"]
__version__ = "0.1.0"
