"""Claims and targets with their verdicts, as sections of a page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lafr_mjx.output import counted
from lafr_mjx.view.page import Badge, Listing, Paragraph, Section, Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lafr_mjx.report.claim_figures import Claim
    from lafr_mjx.view.page import Part, Tone

_TONES: dict[str, Tone] = {
    "reproduced": "good", "better": "better", "not reproduced": "bad", "reached": "good",
    "missed": "bad", "too short": "plain", "no data": "plain",
}  # fmt: skip


def claim_sections(claims: Sequence[Claim], targets: Sequence[Claim]) -> list[Section]:
    """The paper's claims and our own targets, each where there is data for any of them."""
    sections = []
    if any(claim.verdict != "no data" for claim in claims):
        count = {verdict: sum(claim.verdict == verdict for claim in claims) for verdict in _TONES}
        sections.append(Section("Summary against the paper", [
            Paragraph(
                f"Of {len(claims)} claims {count['reproduced']} are **reproduced**, "
                f"{count['better']} are **better** than printed, {count['not reproduced']} are "
                f"**not reproduced**, for {count['too short']} the runs are **too short**, and "
                f"{count['no data']} have no data here."
            ),
            _table(claims, "paper", "measured: median (range over the seeds)"),
            Paragraph(
                "Reproduced: every run reaches the figure as printed, or shows what is said. "
                "Better: every run is beyond it by more than 3 %. Not reproduced: at least one run "
                "is not. Too short: the claim is about ten iterations, and there are only runs of "
                "fewer, which do not settle it. A run with a crash reproduces nothing, and neither "
                "does one whose last flight was **assisted**: the guard slowed the reference down, "
                "or the last good policy took over. An error is below the threshold if its peak "
                "is, in every flight, without help. A comparison of two methods "
                "counts as reproduced if the last lap of the first is shorter by 2 % or more in "
                "every seed. The paper's figures for speed, laps, hardware and inspection come "
                "from real flights; everything here is simulated."
            ),
            *_missing(claims, "claim"),
        ]))  # fmt: skip
    if any(target.verdict != "no data" for target in targets):
        sections.append(Section("Our own targets", [
            Paragraph("What the paper does not state. A target is reached if every run reaches it; "
                      "figures with slashes are of each seed."),
            _table(targets, "to reach", "measured"),
            *_missing(targets, "target"),
        ]))  # fmt: skip
    return sections


def _table(claims: Sequence[Claim], wanted: str, measured: str) -> Table:
    rows, topic = [], ""
    for claim in claims:
        if claim.verdict != "no data":
            name = claim.topic if claim.topic != topic else ""
            badge = Badge(claim.verdict, _TONES[claim.verdict])
            rows.append((name, claim.claim, claim.paper, claim.measured, badge))
            topic = claim.topic
    return Table(("", "claim", wanted, measured, "verdict"), rows, text_columns=5)


def _missing(claims: Sequence[Claim], what: str) -> list[Part]:
    lines = [f"{c.topic}: {c.claim}" for c in claims if c.verdict == "no data"]
    head = f"{counted(len(lines), what)} without data"
    return [Listing(head, "\n".join(lines))] if lines else []
