"""A reader of Prometheus's text format for tests: strict, and no code of the product."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_SAMPLE = re.compile(
    r'^(?P<name>[a-z_]+)(?:\{(?P<labels>(?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)+)\})? (?P<value>[-+0-9.e]+)$'
)
_LABEL = re.compile(r'([a-z_]+)="((?:[^"\\]|\\.)*)"')


@dataclass
class Scraped:
    """What a page said."""

    types: dict[str, str] = field(default_factory=dict)
    samples: dict[tuple[str, frozenset[tuple[str, str]]], float] = field(default_factory=dict)

    def value(self, name: str, **labels: str) -> float:
        """Of one sample; an unknown one is an error."""
        return self.samples[name, frozenset(labels.items())]

    def by(self, name: str, label: str) -> dict[str, float]:
        """Values above 0 of a family by one label."""
        return {dict(labels)[label]: value for (one, labels), value in self.samples.items() if one == name and value}


def scraped(text: str) -> Scraped:
    """Each family described once before its samples, no sample twice, every line understood."""
    found = Scraped()
    assert text.endswith("\n") and "\n\n" not in text
    for line in text.splitlines():
        if line.startswith("# HELP "):
            continue
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name not in found.types, f"{name} is described twice"
            found.types[name] = kind
            continue
        sample = _SAMPLE.match(line)
        assert sample, f"no sample: {line}"
        family = re.sub(r"_(bucket|sum|count)$", "", sample["name"])
        assert sample["name"] in found.types or found.types[family] == "histogram", line
        key = (sample["name"], frozenset(_LABEL.findall(sample["labels"] or "")))
        assert key not in found.samples, f"twice: {line}"
        found.samples[key] = float(sample["value"])
    return found
