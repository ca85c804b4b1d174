"""Planted mistakes in the order of messages that become ready at the same time."""

from __future__ import annotations

from tests.mutants.catalogue import Mutant

PUSHED = "test_schedule.test_messages_for_one_time_keep_the_order_of_their_pushes"
LEFT = "test_schedule.test_a_message_comes_behind_those_that_are_left_for_its_time"
PAST = "test_schedule.test_a_message_for_a_past_time_waits_behind_the_rest_for_that_time"
DIFFERENT = "test_schedule.test_messages_for_different_past_times_keep_their_times"

MUTANTS = (
    Mutant("schedule", "one time for all messages of a call", "due + (at - 3) / 2", "due", PUSHED),
    Mutant(
        "schedule",
        "one time for all messages with a delay",
        "due + (at - 3) / 2",
        "due + (base == 'at' and (at - 3) / 2 or 0)",
        "test_schedule.test_messages_with_one_delay_keep_their_order",
    ),
    Mutant(
        "schedule",
        "a later call begins at the same time",
        "behind(delayed, due, due_text)",
        "due",
        PUSHED,
    ),
    Mutant(
        "schedule",
        "a long row is seen in part",
        "2 * count < width",
        "true",
        "test_schedule.test_a_row_longer_than_the_first_look_is_seen_whole",
    ),
    Mutant(
        "schedule",
        "behind any message that is near",
        "first + 2 * count + GAP - 1)",
        "first + 4096)",
        "test_schedule.test_messages_for_other_times_are_not_held_up",
    ),
    Mutant(
        "schedule",
        "in front of the rest of a row",
        "last, text = time_of(head[2]), head[2]",
        "last = last",
        PAST,
        {"taken": 900},
    ),
    Mutant(
        "schedule",
        "any past time is the same",
        "head[4] and time_of(head[4]) - time_of(head[2]) <= 1",
        "head[2]",
        DIFFERENT,
    ),
    Mutant(
        "schedule",
        "in front of a row whose first was canceled",
        "score_of(time + GAP - 1)",
        "text",
        LEFT,
        {"left": [1, 2], "end": "cancel"},
    ),
    Mutant(
        "schedule",
        "in front of what is left of a row",
        "GAP = 100",
        "GAP = 1",
        LEFT,
        {"left": [99], "end": "run_now"},
    ),
    Mutant(
        "schedule",
        "a row has one gap at most",
        "GAPS = 100",
        "GAPS = 1",
        LEFT,
        {"left": range(0, 3000, 40), "end": "cancel"},
    ),
    Mutant(
        "schedule",
        "others hold up a message for ever",
        "GAPS = 100",
        "GAPS = 1000",
        "test_schedule.test_other_messages_hold_up_a_message_for_milliseconds_at_most",
    ),
    Mutant(
        "push_once",
        "one time for all",
        "or behind(delayed, due, score_of(due))",
        "or due",
        "test_push_once.test_messages_for_one_time_keep_the_order_of_their_pushes",
    ),
    Mutant(
        "held/give_back",
        "one time for all rows of a step",
        "latest[due] and latest[due] + 1\n    or behind(delayed, due, score_of(due))",
        "due",
        "test_held.test_messages_for_one_time_keep_the_order_of_a_commit",
    ),
    Mutant(
        "held/give_back",
        "each step begins at the same time",
        "or behind(delayed, due, score_of(due))",
        "or due",
        "test_held.test_messages_for_one_time_keep_the_order_of_a_commit",
    ),
    Mutant(
        "redrive",
        "one time for all",
        "now - MOST + redriven",
        "now",
        "test_redrive.test_a_key_that_is_taken_is_replaced_and_every_body_survives",
    ),
)
