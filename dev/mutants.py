#!/usr/bin/env python3
"""Breaks the machines in small ways, one at a time, and says who notices.

    dev/mutants.py [--all] [--again] [NAME ...]

Each mutant is built in a copy of the tree (in the temporary folder), so the tree stays as it is. Then the unit tests of
its room and the seeds of CI run until one of them fails, which is named. A mutant that nothing finds is a hole in the
tests, and the exit code is 1. NAME: only mutants whose name contains it.
"""

import argparse
import collections
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Always the same place: the compiler's cache knows it from the last time.
COPY = Path(tempfile.gettempdir()) / f"regroup-mutants-{os.getuid()}"
BUILD = COPY / "build/release"

# As .ci/run has them. A mutant may also make a run endless.
SIMULATIONS = {
    "whole nodes": ["--whole-nodes", "--seeds=1..6000"],
    "coordinator": ["--coordinator", "--seeds=1..2000"],
    "rendezvous": ["--seeds=1..8000", "--steps=3000"],
}
SIMULATION_LIMIT = 180
TEST_LIMIT = 120

Mutant = collections.namedtuple("Mutant", "name file old new")


def mutants():
    listed = []

    def mutant(name, file, old, new):
        listed.append(Mutant(name, "src/core/" + file, old, new))

    agent = "agent/agent.cc"
    mutant("workers that were done when they were to stop are run again", agent,
           "if (ordered && end != GroupEnd::Succeeded) {", "if (ordered) {")
    mutant("a signal does not end the agent", agent,
           "if (signal() != 0) {\n    state_ = State::Stopped;", "if (signal() < 0) {\n    state_ = State::Stopped;")
    mutant("a run that has failed elsewhere is joined again", agent,
           "then_ = AfterStop::End;\n      return both(tell_order(), {stop});",
           "then_ = AfterStop::Rejoin;\n      return both(tell_order(), {stop});")
    mutant("a failure that came second promises the restart", agent, "if (!order_.is_failure || !order_.is_ours)",
           "if (!order_.is_failure)")
    mutant("people are told twice why", agent, "std::exchange(order_is_told_, true)", "order_is_told_")
    mutant("a second signal does not kill", agent, "if (heard == SignalMeaning::Again) return {Kill{}};",
           "if (heard == SignalMeaning::Again) return {};")
    mutant("a doubled signal kills", agent, "if (heard == SignalMeaning::Echo) return {};", "")
    mutant("a worker that was stopped with its node is reported", agent,
           "if (looks_signalled && doing_ == Doing::Running) {", "if (looks_signalled && doing_ == Doing::Nothing) {")
    mutant("a worker that a signal ended alone is waited for without end", agent,
           "if (hold_) return hold_->until;\n", "")
    mutant("a decision is waited for without end", agent,
           "if (doing_ == Doing::Asking || doing_ == Doing::CheckingIn) return wait_until_;",
           "if (doing_ == Doing::CheckingIn) return wait_until_;")
    mutant("a coordinator that is gone is waited for at the end", agent,
           "if (doing_ == Doing::CheckingIn && unreached_since_)", "if (doing_ == Doing::Asking && unreached_since_)")
    mutant("the node's own failure is named as another's", agent,
           "if (!order.is_ours) verdict_ =", "verdict_ =")

    membership = "agent/membership.cc"
    mutant("a leave is not said", membership,
           "effects.emplace_back(Say{member_.leave(std::move(why), close)});", "(void)effects, (void)member_.leave(std::move(why), close);")
    mutant("the time of a spare runs", membership,
           "if (member_.is_spare() && trouble_.empty()) joining_->give_up = now + joining_->limit;", "")
    mutant("a join never gives up", membership,
           "if (now >= joining_->give_up) {", "if (now >= joining_->give_up + joining_->limit * 1000) {")
    mutant("an order is not told", membership,
           "effects.emplace_back(Ordered{std::move(now_in_force)});", "")

    coordinator = "coordinator/coordinator.cc"
    rounds = "coordinator/coordinator_rounds.cc"
    mutant("a round is sealed before the members of the last one are back", rounds,
           "last_round_.awaits_nobody() && !others_wait", "!others_wait")
    mutant("the end of a phase is never announced", rounds,
           "if (before != phase(state_)) add(effects, LeftPhase{before});", "")
    mutant("a late node makes those run again that are done", rounds, "&&\n      !a_member_is_done()) {", ") {")
    mutant("a failure of an earlier round counts against this one", coordinator,
           "if (!is_running() || failed.round != state_.round ||", "if (!is_running() ||")
    mutant("a node is done with an earlier round", coordinator,
           "if (!is_running() || done.round != state_.round ||", "if (!is_running() ||")
    mutant("the end of a successful run is not announced", "coordinator/coordinator_end.cc",
           "send(node, Over{}, effects);\n  add(effects, LeftPhase{before});", "send(node, Over{}, effects);")
    mutant("who is done is not told to begin again", rounds,
           "if (node.doing == Doing::Running || node.doing == Doing::Done)\n      send(node, stop_for(node)",
           "if (node.doing == Doing::Running)\n      send(node, stop_for(node)")
    mutant("nobody is found silent", coordinator,
           "if (silence_.take_due(now.instant)) find_lost(now, effects);", "(void)silence_.take_due(now.instant);")
    mutant("a stop that was lost is not said again", coordinator,
           "if (!is_running()) send(node, stop_for(node), effects);", "")
    mutant("a failure is judged while members may still come back", coordinator,
           "if (!restoring_.is_holding()) return judge_failure(node, failed, now, effects);",
           "return judge_failure(node, failed, now, effects);")
    mutant("restarts before this coordinator are forgotten", "coordinator/coordinator_restoring.cc",
           "budget_.recall(hello.node, hello.restarts);", "")
    mutant("who has no session counts as done", "coordinator/coordinator_end.cc",
           "return found == nodes_.end() || found->second.doing", "return found != nodes_.end() && found->second.doing")
    mutant("one restart too many", "coordinator/restart_budget.cc",
           "return {.restart = restarts_ < rules_.max_restarts};", "return {.restart = restarts_ <= rules_.max_restarts};")
    mutant("one change of members too few", "coordinator/restart_budget.cc",
           "++member_changes_ <= *rules_", "++member_changes_ < *rules_")
    mutant("a change of members costs a restart", "coordinator/restart_budget.cc",
           "  if (!rules_.max_membership_changes ||", "  ++restarts_;\n  if (!rules_.max_membership_changes ||")
    mutant("a failure that an earlier coordinator has counted is counted again", "coordinator/restart_budget.cc",
           "if (resumed_ && restarts_ > *resumed_", "if (resumed_ && restarts_ < *resumed_")
    mutant("a restart window is not looked at", "coordinator/restart_budget.cc",
           "static_cast<std::int64_t>(within_window_.size()) < rules_", "static_cast<std::int64_t>(within_window_.size()) <= rules_")
    mutant("who is done and goes away is missed", coordinator,
           "if (is_done && !state_.closed) return;", "if (is_done && state_.closed) return;")
    mutant("who comes back to a round that is over is not told so", coordinator,
           "budget_.restart_count(node.id);\n  send(node, std::move(stop), effects);", "budget_.restart_count(node.id);")
    mutant("strikes are not counted", "coordinator/restart_budget.cc", "++strikes_[culprit.name];", "")
    mutant("a failure is not said again on a new connection", "coordinator/member.cc",
           "if (failed_) messages.emplace_back(*failed_);", "")
    mutant("who is done comes back as one that runs", "coordinator/member.cc", ".done = done_};", ".done = false};")
    mutant("a node that has come again is closed with its old connection", "coordinator/coordinator.cc",
           "sessions_.erase(*node.session);\n    add(effects, CloseSession{*node.session, \"the node has come again\"});",
           "add(effects, CloseSession{session, \"the node has come again\"});")
    mutant("a slow turn of the coordinator condemns its nodes", "coordinator/silence_watch.cc",
           "lenient_until_ = now + heartbeat_limit_;", "lenient_until_ = now;")

    supervision = "supervision/supervision.cc"
    mutant("no SIGKILL after the grace", supervision,
           "if (phase_ == Phase::Stopping) return begin_kill(now);", "if (phase_ == Phase::Stopping) return finish();")
    mutant("the last failure is the cause", supervision,
           "if (outcome.end == End::Failed && !first_failure_)", "if (outcome.end == End::Failed)")
    mutant("who is ended for a hang and ends with 0 has succeeded", supervision,
           "if (outcome.condemned) {", "if (outcome.condemned && !exit.clean()) {")
    mutant("a failure stops nobody", supervision,
           "if (phase_ == Phase::Running && outcome.end == End::Failed)", "if (phase_ == Phase::Killing && outcome.end == End::Failed)")
    mutant("a second order gives the grace anew", supervision,
           "deadline_ = std::min(*deadline_, now + grace);", "deadline_ = now + grace;")

    mutant("one stalled node makes a hang", "hang/council.cc", "counting_ == nodes_ - ends_ && is_hang",
           "counting_ > 0 && is_hang")
    mutant("who is to blame is never said", "hang/council.cc",
           "static_cast<std::int64_t>(where_.size()) < nodes_ - ends_",
           "static_cast<std::int64_t>(where_.size()) <= nodes_ - ends_")
    mutant("those who wait are blamed", "hang/blame.cc", "return !rank.at.collective;", "return rank.at.collective;")
    mutant("a worker that writes is quiet", "hang/hang.cc", "sample.written != last.written || ", "")

    decide = "rendezvous/decide.cc"
    mutant("a round is sealed above its maximum", decide, "joined <= settings.max_nodes && state.deadline", "state.deadline")
    mutant("who waits behind a full round goes on waiting", decide,
           "if (joined >= settings.max_nodes) return Action::AddToRedundancyList;", "")
    mutant("a round that all have left keeps its number", decide, "state.round += 1;", "")
    mutant("two nodes have the same ranks of workers", "rendezvous/assign_ranks.cc",
           "world += node.local_world_size;", "world += 1;")
    mutant("a heartbeat of the same instant is not seen", decide, "stamp.micros += 1;", "stamp.micros += 0;")
    mutant("silence counts while nobody looked", "rendezvous/liveness.cc",
           "known->second.since = known->second.since + unseen;", "known->second.since = known->second.since;")
    return listed


def run(command, limit=None):
    """The exit code and all output; None: it took too long."""
    process = subprocess.Popen(command, cwd=COPY, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, errors="replace")
    try:
        output, _ = process.communicate(timeout=limit)
        return process.returncode, output
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return None, ""


def copy_tree():
    """Only what has changed is written, so that only that is built again."""
    names = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT,
                           check=True, capture_output=True, text=True).stdout.split("\0")
    names = [name for name in names if (ROOT / name).is_file()]
    for name in names:
        source, target = ROOT / name, COPY / name
        if target.is_file() and target.read_bytes() == source.read_bytes():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)
    for old in (COPY / "src").rglob("*.cc"):
        if str(old.relative_to(COPY)) not in names:
            old.unlink()


def build(targets):
    return run(["cmake", "--build", str(BUILD), "--target", *targets])


def unit_test_of(mutant):
    return "_".join(Path(mutant.file).parent.parts[1:]) + "_test"


def found_by_unit_test(name):
    code, output = run([str(BUILD / "test" / name), "--gtest_brief=1"], TEST_LIMIT)
    if code == 0:
        return ""
    failed = re.search(r"\[  FAILED  \] (\S+)", output)
    if failed:
        return failed[1].rstrip(",")
    return f"{name}: " + ("does not end" if code is None else "aborts")


def found_by_simulation(kind):
    code, output = run([str(BUILD / "regroup_sim"), *SIMULATIONS[kind]], SIMULATION_LIMIT)
    if code == 0:
        return ""
    seed = re.search(r"^seed (\d+): ", output, re.M)
    if seed:
        return f"seed {seed[1]} of {kind}"
    return f"{kind}: " + ("does not end" if code is None else "aborts")


def try_one(mutant, ask_all):
    """Who has found it: the first, or all."""
    path = COPY / mutant.file
    whole = path.read_text()
    if whole.count(mutant.old) != 1:
        sys.exit(f"mutants.py: '{mutant.name}' finds its text {whole.count(mutant.old)} times in {mutant.file}: bring it up to date")
    path.write_text(whole.replace(mutant.old, mutant.new))
    try:
        test = unit_test_of(mutant)
        code, output = build(["regroup_sim", test])
        if code != 0:
            print(f"mutants.py: '{mutant.name}' does not compile:\n{output[-3000:]}", file=sys.stderr)
            return []
        kinds = ["rendezvous", "coordinator"] if "/rendezvous/" in mutant.file else ["whole nodes", "coordinator"]
        found = []
        for ask in [lambda: found_by_unit_test(test), *(lambda kind=kind: found_by_simulation(kind) for kind in kinds)]:
            if one := ask():
                found.append(one)
                if not ask_all:
                    break
        return found
    finally:
        path.write_text(whole)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="ask everybody, also once one has found it")
    parser.add_argument("--again", action="store_true", help="make the copy anew")
    parser.add_argument("names", nargs="*", metavar="NAME")
    arguments = parser.parse_args()
    chosen = [one for one in mutants() if not arguments.names or any(name in one.name for name in arguments.names)]
    if not chosen:
        sys.exit("mutants.py: no mutant has such a name")
    if arguments.again:
        shutil.rmtree(COPY, ignore_errors=True)
    copy_tree()
    # File by file: each mutant changes one.
    code, output = run(["cmake", "--preset", "release", "-DREGROUP_UNITY=OFF", "--log-level=WARNING"])
    if code == 0:
        code, output = build(["regroup_sim", *sorted({unit_test_of(one) for one in chosen})])
    if code != 0:
        sys.exit(f"mutants.py: the copy in {COPY} cannot be built:\n{output[-3000:]}")
    print(f"{len(chosen)} mutants, in {COPY}\n\n| mutant | found by |\n|---|---|", flush=True)
    missed = 0
    began = time.monotonic()
    for mutant in chosen:
        found = try_one(mutant, arguments.all)
        missed += not found
        print(f"| {mutant.name} | {'; '.join(found) or '**nothing**'} |", flush=True)
    print(f"\n{len(chosen) - missed} found, {missed} missed, {(time.monotonic() - began) / 60:.0f} minutes")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
