"""A worker gives up for a reason that the run explains; otherwise it is a finding."""

from __future__ import annotations

from pathlib import Path

import pytest
from aiokafka.errors import KafkaConnectionError, KafkaError
from delivery_checks import due, summary, violations
from delivery_faults import BROKER, Fault
from delivery_history import GivenUp, History
from delivery_journal import Journal, is_ready
from delivery_log import Batch, Record
from delivery_reasons import reasons, timed_out, transaction_state
from delivery_run import Case, Run
from delivery_worker_aio import root_of
from test_delivery_checks import GROUP, SOURCE, sound

from ottla.coordinator.transactions.records import write_key, write_value
from ottla.coordinator.transactions.transaction import TransactionMetadata, TransactionState

TIMEOUT_MS = 8000


def gave_up(error: str, exit_code: int = 3) -> History:
    history = sound()
    history.journals["s.1"].append(["error", error])
    history.given_up.append(GivenUp("s", 1, exit_code))
    return history


def aborted(name: str, age_ms: int, epoch: int = 1, producer_id: int = SOURCE) -> Batch:
    """PrepareAbort of a transaction of this age, in `__transaction_state`."""
    transaction = TransactionMetadata(
        producer_id,
        epoch,
        TIMEOUT_MS,
        TransactionState.PREPARE_ABORT,
        frozenset({("in", 0), ("in", 2), ("t", 1)}),
    )
    value = write_value(transaction._replace(start_ms=1000, update_ms=1000 + age_ms))
    return Batch(0, 0, -1, -1, False, None, (Record(0, write_key(name), value),))


OF_ANOTHER_PRODUCER = aborted(f"{GROUP}-s", TIMEOUT_MS + 1, producer_id=SOURCE + 1)


@pytest.mark.parametrize("error", ["_TIMED_OUT: Failed to add offsets", "TimeoutError: 30 s"])
def test_a_missing_answer_is_a_reason(error: str) -> None:
    assert violations(gave_up(error)) == []


def test_the_watchdog_of_a_client_that_hangs_is_a_reason() -> None:
    history = gave_up("", exit_code=1)
    assert violations(history) == []


@pytest.mark.parametrize(
    ("error", "exit_code"),
    [
        ("OUT_OF_ORDER_SEQUENCE_NUMBER: Failed to end", 3),
        ("INVALID_PRODUCER_ID_MAPPING: x", 3),
        ("", -6),
    ],
)
def test_an_unexplained_failure_is_found(error: str, exit_code: int) -> None:
    (found,) = violations(gave_up(error, exit_code))
    assert found == f"s.1 gave up ({exit_code}): {error or 'no word'}"


@pytest.mark.parametrize("error", ["_FENCED: by a newer", "ProducerFencedException: There is"])
def test_a_producer_that_nobody_has_fenced_is_found(error: str) -> None:
    (found,) = violations(gave_up(error))
    assert found.startswith("s: 1 refusals that no timeout of their epoch explains, and 0 zombies")


def test_a_zombie_explains_one_fence() -> None:
    history = gave_up("_FENCED: by a newer")
    history.zombies["s"] = 1
    assert violations(history) == []
    history.given_up *= 2
    assert len(violations(history)) == 1


def test_a_transaction_that_took_too_long_explains_a_fence() -> None:
    history = gave_up("_FENCED: by a newer")
    history.transaction_batches.append(aborted(f"{GROUP}-s", TIMEOUT_MS))
    assert len(violations(history)) == 1  # an abort in good time is the producer's own
    history.transaction_batches.append(aborted(f"{GROUP}-s", TIMEOUT_MS + 1))
    assert violations(history) == []


def test_a_timeout_of_another_epoch_explains_nothing() -> None:
    """It belonged to another producer of the same slot, or to another transaction."""
    for other in (aborted(f"{GROUP}-s", TIMEOUT_MS + 1, epoch=4), OF_ANOTHER_PRODUCER):
        history = gave_up("_FENCED: by a newer")
        history.journals["s.1"].insert(-1, ["sent", "s.1.2.0.1"])
        history.transaction_batches.append(other)
        assert len(violations(history)) == 1
        history.transaction_batches.append(aborted(f"{GROUP}-s", TIMEOUT_MS + 1))
        assert violations(history) == []


def test_the_run_says_why_workers_gave_up() -> None:
    assert reasons(gave_up("_TIMED_OUT: Failed to add offsets")) == {"s: _TIMED_OUT": 1}
    assert reasons(gave_up("", exit_code=1)) == {"s: exit 1": 1}


def test_a_timeout_explains_one_refusal() -> None:
    history = gave_up("_FENCED: by a newer")
    history.transaction_batches.append(aborted(f"{GROUP}-s", TIMEOUT_MS + 1))
    assert violations(history) == []
    history.journals["s.1"].append(["note", "s.1.2: INVALID_TXN_STATE: tried"])
    assert len(violations(history)) == 1


def test_two_reports_about_one_transaction_are_one_refusal() -> None:
    history = gave_up("InvalidTxnStateException: Cannot execute")
    lines = history.journals["s.1"]
    lines[-1:-1] = [["sent", "s.1.2.0.1"], ["acked", "s.1.2.0.1", "in", 0, 4]]
    lines[-1:-1] = [["note", "s.1.2: InvalidTxnStateException: tried"]]
    assert len(violations(history)) == 1
    history.transaction_batches.append(aborted(f"{GROUP}-s", TIMEOUT_MS + 1))
    assert violations(history) == []


def test_a_refusal_is_attributed_to_the_right_producer_of_a_process() -> None:
    history = gave_up("ProducerFencedException: There is")
    history.journals["s.1"][-1].append(f"{GROUP}-s-3")
    history.transaction_batches.append(aborted(f"{GROUP}-s-2", TIMEOUT_MS + 1))
    assert len(violations(history)) == 1
    history.transaction_batches.append(aborted(f"{GROUP}-s-3", TIMEOUT_MS + 1))
    assert violations(history) == []


@pytest.mark.parametrize("name", ["INVALID_TXN_STATE", "InvalidTxnStateException"])
def test_a_refused_write_of_a_sound_transaction_is_found(name: str) -> None:
    """The client aborts, and goes on: the journal has a note of it and no error."""
    history = sound()
    history.journals["s.1"].append(["note", f"s.1.3: {name}: tried"])
    (found,) = violations(history)
    assert found.endswith("explains, and 0 zombies; s.1.3: " + f"{name}: tried")


def test_an_abort_of_nothing_is_a_reason_in_version_1() -> None:
    history = gave_up("INVALID_TXN_STATE: Failed to end transaction")
    assert violations(history) == []
    lines = history.journals["s.1"]
    lines.insert(-1, ["acked", "s.1.1.0.3", "in", 0, 0])  # of a transaction that is not ended
    (found,) = violations(history)
    assert "1 refusals that no timeout of their epoch explains" in found


def test_a_commit_after_a_timeout_is_a_reason_in_version_2() -> None:
    history = gave_up("InvalidTxnStateException: Cannot execute")
    history.journals["s.1"].insert(-1, ["acked", "s.1.1.0.3", "in", 0, 0])
    assert len(violations(history)) == 1
    history.transaction_batches.append(aborted(f"{GROUP}-s", TIMEOUT_MS + 1))
    assert violations(history) == []


def test_the_transaction_log_is_read_as_the_project_writes_it() -> None:
    batch = aborted("x", 5)
    assert batch.records[0].value is not None
    assert transaction_state(batch.records[0].value) == (
        TransactionState.PREPARE_ABORT.value,
        5,
        TIMEOUT_MS,
    )
    assert timed_out([batch]) == {}
    assert timed_out([aborted("x", TIMEOUT_MS + 1)] * 2) == {"x": [(SOURCE, 1)] * 2}


def test_the_summary_counts_what_was_sent() -> None:
    history = sound()
    history.journals["s.1"] += [["sent", f"s.1.1.{number}.3"] for number in range(3)]
    assert summary(history).startswith("3 sent, 3 in, 3 out, 0 lost")
    history.logs = {place: [] for place in history.logs}  # committed, and gone
    assert len(due(history)) == 3
    assert summary(history).startswith("3 sent, 0 in, 0 out, 3 lost")


def test_a_fault_waits_until_the_broker_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The complete plan is executed: a test may depend on a killed broker."""
    done: list[Fault] = []
    monkeypatch.setattr(Run, "_hurt_broker", lambda self, fault: done.append(fault))
    run = Run(Case("at_least_once"), 7, 1.0, tmp_path)
    run._broker_away = True
    fault = Fault(0.0, BROKER, "kill", 0.1)
    run._inflict(fault)
    assert not done
    ((_, _, again),) = run._due
    run._broker_away = False
    again()
    assert done == [fault]


def test_aiokafkas_reason_is_the_first_error_of_its_chain() -> None:
    closed = KafkaConnectionError("Connection at 127.0.0.1:1 closed")
    wrapped = KafkaError(repr(closed))
    wrapped.__cause__ = closed
    assert root_of(wrapped) is closed
    assert root_of(closed) is closed
    alone = KafkaError("nobody knows")
    assert root_of(alone) is alone


def test_a_worker_that_retried_for_long_is_ready(tmp_path: Path) -> None:
    path = tmp_path / "source2.2.journal"
    assert not is_ready(path)
    journal = Journal(str(path))
    for _ in range(100):
        journal(
            "note", "TimeoutException: Timeout expired after 20000ms while awaiting InitProducerId"
        )
    assert not is_ready(path)
    journal("ready")
    assert is_ready(path)
