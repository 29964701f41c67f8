"""`python -m regroup.torchrun …` is `torchrun …` by `regroup run`: this process becomes the program."""

import sys

from regroup.launch import become

if __name__ == "__main__":
    try:
        become(sys.argv[1:])
    except FileNotFoundError as error:
        sys.exit(f"regroup: {error}")
