"""The files with which an operator applies an advice: lines for broker.conf, and commands for running brokers."""

import textwrap
from collections.abc import Iterable
from typing import Final

from pulsar_barycenter.load.managers import MANAGER_KEY, ManagerKind, manager_kind
from pulsar_barycenter.load.strategies import OWN_PACKAGE, SHEDDING_KEY, is_own
from pulsar_barycenter.replay.advice.document import Advice, AdviceVerdict, Change

_WIDTH: Final = 110


def fragment(advice: Advice) -> str:
    """Return lines for broker.conf with the keys that the advice changes and their new values. A comment above each of
    them says why.
    """
    lines = [*_comment(advice.sentence), *_own(advice.changes)]
    for change in advice.changes:
        how = "running brokers apply it, see commands.sh" if change.is_dynamic else "read when a broker starts"
        lines += ["", *_comment(f"today {change.today or 'blank'}; {change.why}; {how}")]
        lines.append(f"{change.key}={change.advised}")
    if advice.verdict is not AdviceVerdict.CHANGE:
        lines += ["", "# There is nothing to change."]
    return "\n".join(lines) + "\n"


def commands(advice: Advice) -> str:
    """Return a shell script that changes the advised settings on running brokers, as far as these apply them without a
    restart. Comments in the script name the other settings, for which brokers must be restarted first.
    """
    lines = ["#!/bin/sh", *_comment(advice.sentence), "set -e"]
    restarts = [change for change in advice.changes if not change.is_dynamic]
    dynamic = [change for change in advice.changes if change.is_dynamic]
    if not advice.changes:
        return "\n".join([*lines, "", "# There is nothing to change."]) + "\n"
    lines += _own(advice.changes)
    if restarts:
        told = ", ".join(change.key for change in restarts)
        lines += [
            "",
            *_comment(
                f"First write broker.conf.fragment into the broker.conf of every broker: {told}"
                f" {'is' if len(restarts) == 1 else 'are'} read when a broker starts. {_how(restarts)}"
                " Then run this script: a dynamic setting takes precedence over broker.conf."
            ),
        ]
    for change in dynamic:
        lines.append("")
        if change.key == SHEDDING_KEY:
            lines += _comment("Brokers of Apache Pulsar read this one when they start, too: restart them one by one.")
        lines.append(
            f"pulsar-admin brokers update-dynamic-config --config {change.key} --value {_quoted(change.advised)}"
        )
    return "\n".join(lines) + "\n"


def _own(changes: Iterable[Change]) -> list[str]:
    """Return comment lines that name the changes which Apache Pulsar's brokers do not know, only Barycenter's. Return
    an empty list if there are none.
    """
    own = [change.key for change in changes if change.key.startswith(OWN_PACKAGE) or is_own(change.advised)]
    if not own:
        return []
    text = f"Only for brokers of Barycenter: Apache Pulsar does not know the keys or values of {', '.join(own)}."
    return ["", *_comment(text)]


def _how(restarts: list[Change]) -> str:
    manager = next((change for change in restarts if change.key == MANAGER_KEY), None)
    if manager is None:
        return "Restart the brokers one by one."
    both = {manager_kind(manager.today), manager_kind(manager.advised)}
    if ManagerKind.EXTENSIBLE in both:
        return (
            "The two load managers store ownership in different places: set loadManagerMigrationEnabled=true, then"
            " restart the brokers one by one (docs/extensible-load-manager.md)."
        )
    return "Restart the brokers one by one."


def _quoted(text: str) -> str:
    return (
        text
        if text and all(each.isalnum() or each in "._-/:," for each in text)
        else "'" + text.replace("'", "'\\''") + "'"
    )


def _comment(text: str) -> list[str]:
    plain = "".join(each if each.isprintable() else "�" for each in text)
    return textwrap.wrap(
        plain, _WIDTH, initial_indent="# ", subsequent_indent="# ", break_long_words=False, break_on_hyphens=False
    )
