"""How trust and readers join."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bot.core.labels import MAX_SOURCES, NOBODY, PUBLIC, TEAM, UNREADABLE, Label, Readers, Source, Trust

READERS = st.one_of(
    st.just(PUBLIC),
    st.just(TEAM),
    st.frozensets(st.sampled_from(["U1", "U2", "U3"])).map(lambda ids: Readers("only", ids)),
)
LABELS = st.builds(Label, st.sampled_from(Trust), READERS)


def _may_read(readers: Readers, who: str) -> bool:
    """An oracle in three lines: strangers read what is public, members also what is for the team."""
    if readers.scope == "only":
        return who in readers.ids
    return readers.scope == "public" or who != "stranger"


@given(LABELS, LABELS)
def test_a_joined_label_is_no_higher_than_either(one: Label, other: Label) -> None:
    """Joining takes the lowest trust and the fewest readers."""
    both = one.join(other)

    assert both.trust == min(one.trust.value, other.trust.value)
    for who in ("U1", "U2", "U3", "U4", "stranger"):
        assert _may_read(both.readers, who) == (_may_read(one.readers, who) and _may_read(other.readers, who))


@given(LABELS, LABELS)
def test_joining_is_the_same_either_way_round(one: Label, other: Label) -> None:
    """Order decides nothing."""
    assert one.join(other) == other.join(one)


def test_sources_are_kept_up_to_a_bound_and_the_rest_are_counted() -> None:
    """A thread that read a thousand tickets still has a small label."""
    label = Label()
    for number in range(MAX_SOURCES + 5):
        label = label.join(Label(Trust.UNTRUSTED, TEAM, (Source("tool", f"t{number}", Trust.UNTRUSTED),)))

    assert len(label.sources) == MAX_SOURCES
    assert label.more_sources == 5


def test_words_that_cannot_be_read_count_as_untrusted_and_for_nobody() -> None:
    """What is missing fails closed."""
    assert Trust.parse("SYSTEM ") is Trust.UNTRUSTED
    assert Trust.parse(None) is Trust.UNTRUSTED
    assert Readers.parse({"all": True}) == NOBODY
    assert Readers.parse([1]) == NOBODY
    assert UNREADABLE.trust is Trust.UNTRUSTED


@given(READERS)
def test_readers_survive_being_written_down(readers: Readers) -> None:
    """The word in an event gives the same readers back."""
    assert Readers.parse(readers.dump()) == readers


def test_trust_is_written_in_lower_case() -> None:
    """Events and policy files share the words."""
    assert [trust.word for trust in sorted(Trust)] == [
        "untrusted",
        "extracted",
        "internal",
        "principal",
        "system",
    ]
    assert all(Trust.parse(trust.word) is trust for trust in Trust)
