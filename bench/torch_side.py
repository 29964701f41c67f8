#!/usr/bin/env python3
"""The parts of the benchmark that need PyTorch; bench/run.py starts them under a Python that has it.

    torch_side.py server     PyTorch's own libuv server; ends when stdin closes
    torch_side.py clients    PyTorch's own client, many processes of it; one measurement for each line of stdin
    torch_side.py rendezvous PORT NODES LIMIT     so many of PyTorch's handlers, a thread each, meet at a store
    torch_side.py timers PATH    PyTorch's server of file timers, as its agent starts it; ends when stdin closes
    torch_side.py version
"""

import array
import json
import os
import select
import socket
import sys
import threading
import time
import traceback

import torch
import torch.distributed as dist

VALUE = "v" * 64
WARM_UP = 50
# Every so many operations one is timed by itself: often enough for a p99, too seldom to slow anything.
TIMED_ONE_IN = 8
GO_BYTES = 32
LONGEST_START = 60


def serve():
    # Left to itself the server listens on all addresses, sees our clients as ::ffff:127.0.0.1, and asks DNS for
    # the name of each when it accepts it. A lost answer costs 5 seconds. On a socket of the plain loopback
    # address /etc/hosts knows the name, so neither DNS nor the network is part of what we measure.
    with socket.create_server(("127.0.0.1", 0), backlog=65535) as listener:
        store = dist.TCPStore("127.0.0.1", listener.getsockname()[1], None, True, wait_for_workers=False,
                              use_libuv=True, master_listen_fd=listener.detach())
    print(f"listening on 127.0.0.1:{store.port}", flush=True)
    sys.stdin.read()


def operation(store, name, client):
    if name == "get":
        key = f"key{client}"
        store.set(key, VALUE)
        return lambda: store.get(key)
    if name == "add":
        counter = f"counter{client}"
        return lambda: store.add(counter, 1)
    raise ValueError(name)


def one_client(order, client, ready, go):
    """Runs from the moment that `go` names for order["seconds"].

    Returns how many operations it did, how many per second, the latencies in ns, and its store.
    """
    store = dist.TCPStore("127.0.0.1", order["port"], None, False)
    op = operation(store, order["op"], client)
    for _ in range(WARM_UP):
        op()
    os.write(ready, b"r")
    start = float(os.read(go, GO_BYTES))
    while time.monotonic() < start:
        time.sleep(0.0005)
    latencies = array.array("d")
    count, clock, clock_ns = 0, time.monotonic, time.perf_counter_ns
    began, end = clock(), start + order["seconds"]
    while True:
        for _ in range(TIMED_ONE_IN - 1):
            op()
        before = clock_ns()
        op()
        latencies.append(clock_ns() - before)
        count += TIMED_ONE_IN
        if clock() >= end:  # Asked last, so that a client that a busy machine started too late has numbers too.
            break
    return count, count / (clock() - began), latencies, store


def fork_client(order, client, pipes):
    """The pipe on which a new process will send its results."""
    result, result_end = os.pipe()
    if os.fork():
        os.close(result_end)
        return result
    try:
        os.close(pipes.go_end)
        os.close(pipes.stay_end)  # Or we would never see it close.
        count, rate, latencies, store = one_client(order, client, pipes.ready_end, pipes.go)
        with os.fdopen(result_end, "wb") as out:
            out.write(json.dumps({"operations": count, "rate": rate}).encode() + b"\n" + latencies.tobytes())
        os.read(pipes.stay, 1)  # Keep the connection until the server's CPU time has been read.
        del store
        os._exit(0)
    finally:
        traceback.print_exc()
        os._exit(1)


def read_result(pipe):
    with os.fdopen(pipe, "rb") as source:
        head = source.readline()
        if not head:
            sys.exit("torch_side.py: a client died")
        return json.loads(head), array.array("d", source.read())


class Pipes:
    """From all clients: ready. To all clients: go, with the starting time; and stay, until it closes."""

    def __init__(self):
        self.ready, self.ready_end = os.pipe()
        self.go, self.go_end = os.pipe()
        self.stay, self.stay_end = os.pipe()

    def close(self):
        for pipe in vars(self).values():
            os.close(pipe)


def measure(order):
    pipes = Pipes()
    results = [fork_client(order, client, pipes) for client in range(order["clients"])]
    for _ in results:
        if not select.select([pipes.ready], [], [], LONGEST_START)[0]:
            sys.exit("torch_side.py: a client could not connect")
        os.read(pipes.ready, 1)
    print("ready", flush=True)
    sys.stdin.readline()

    start = f"{time.monotonic() + 0.02}".encode().ljust(GO_BYTES)
    os.write(pipes.go_end, start * len(results))
    latencies = array.array("d")
    answer = {"operations": 0, "rate": 0.0}
    for result in results:
        head, samples = read_result(result)
        latencies.extend(samples)
        for key in answer:
            answer[key] += head[key]
    ordered = sorted(latencies)
    for name, part in (("median_us", 0.5), ("p99_us", 0.99)):
        answer[name] = ordered[int(part * (len(ordered) - 1))] / 1000
    print(json.dumps(answer), flush=True)
    sys.stdin.readline()

    pipes.close()
    for _ in results:
        os.wait()


def meet(port, nodes, limit):
    """Prints the seconds until all have their ranks, and how many have them when the limit is over."""
    from torch.distributed.elastic.rendezvous.c10d_rendezvous_backend import C10dRendezvousBackend
    from torch.distributed.elastic.rendezvous.dynamic_rendezvous import DynamicRendezvousHandler

    run_id = f"torch-{os.getpid()}"
    handlers = []
    for _ in range(nodes):
        store = dist.TCPStore("127.0.0.1", port, None, False)
        handlers.append(DynamicRendezvousHandler.from_backend(
            run_id, store, C10dRendezvousBackend(store, run_id), nodes, nodes, local_addr="127.0.0.1"))
    ranks = []
    start = threading.Barrier(nodes + 1)

    def join(handler):
        start.wait()
        ranks.append(handler.next_rendezvous().rank)

    threads = [threading.Thread(target=join, args=(handler,), daemon=True) for handler in handlers]
    for thread in threads:
        thread.start()
    start.wait()
    began = time.monotonic()
    for thread in threads:
        thread.join(max(0, began + limit - time.monotonic()))
    seconds = time.monotonic() - began
    met = len(ranks)
    if met == nodes and sorted(ranks) != list(range(nodes)):
        sys.exit(f"torch_side.py: the ranks are {sorted(ranks)}")
    print(json.dumps({"seconds": seconds, "met": met}), flush=True)
    os._exit(0)  # Threads that are still trying would never end.


def serve_timers(path):
    import signal
    from torch.distributed.elastic.timer import FileTimerServer

    signal.signal(signal.SIGUSR1, signal.SIG_IGN)  # After a worker it signals itself.
    server = FileTimerServer(path, "run", max_interval=0.1)
    server.start()
    print("ready", flush=True)
    sys.stdin.read()
    os._exit(0)


def main():
    if sys.argv[1] == "server":
        serve()
    elif sys.argv[1] == "timers":
        serve_timers(sys.argv[2])
    elif sys.argv[1] == "version":
        print(torch.__version__)
    elif sys.argv[1] == "rendezvous":
        meet(int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
    else:
        print("ready", flush=True)
        while line := sys.stdin.readline():
            measure(json.loads(line))


if __name__ == "__main__":
    main()
