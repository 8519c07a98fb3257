"""The page that shows a fit: the answer first, then tables and plots, then how it was chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lafr_mjx.fitting.fit_job import HORIZONS, QUANTITIES
from lafr_mjx.fitting.fit_tables import ERROR_HEADS, error_table, estimate_rows, rate_rows
from lafr_mjx.view.page import Items, Listing, Page, Paragraph, Picture, Section, Table, to_html

if TYPE_CHECKING:
    from pathlib import Path

    from lafr_mjx.fitting.fit_job import Result
    from lafr_mjx.view.page import Part

_UNITS = {"position_mm": "mm", "velocity_cmps": "cm/s", "attitude_deg": "°"}
_CAPTIONS = {
    "predicted": "Each point was predicted from the measured state 0.5 s before it, with the "
    "logged inputs. Ten seconds of the test part.",
    "horizon": "Root mean square over all windows of the test part.",
    "speed": "Points: single windows; lines: root mean square in ten bins of speed.",
    "learning_curve": "Fitted to the first seconds of the training part only, tested as above.",
    "replay": "As the online learner would have seen it: refitted each second to what was past, "
    "tested on the second that followed.",
}


def page(result: Result, plots: dict[str, Path], said: list[str]) -> str:
    """The page as HTML."""
    f = result.figures
    lines = [line.strip() for line in said]
    sections = []
    if result.errors:
        sections.append(Section("Prediction of what was not seen", _errors(result)))
    if "hybrid_rates_dps" in f:
        sections.append(Section("Body rates against their commands", [
            Table(("model", "roll and pitch °/s", "yaw °/s"), rate_rows(f)),
        ]))  # fmt: skip
    rows = estimate_rows(f)
    if rows:
        sections.append(Section("The vehicle", [
            Paragraph("Estimates from all of the logs, with 95 % intervals, relative to the "
                      f"profile of `{f['vehicle']}`. A weak rotor looks like extra mass."),
            Table(("what", "estimate", "from", "to"), rows),
        ]))  # fmt: skip
    for title, path in plots.items():
        caption = _CAPTIONS.get(path.stem, "")
        sections.append(Section(title, [Picture(path.stem, path.read_bytes(), title, caption)]))
    if result.choice is not None:
        sections.append(Section("How the features were chosen", _choice(result.choice)))
    sections.append(
        Section("What was read and done", [Items(lines, lambda x: x.startswith("Looks wrong"))])
    )
    foot = f"Seed {f['seed']}; {f.get('wall_s', 0.0):.0f} s of work and compiling."
    return to_html(Page("Does the model explain this vehicle?", _lead(f), sections, True, foot))


def _lead(f: dict[str, Any]) -> str:
    seen = f"It was fitted to {f['train_s']:.0f} s of flight and tested on {f['test_s']:.0f} s"
    seen += " that it had not seen."
    if "hybrid_500ms_position_mm" in f:
        ours, nominal = (
            " / ".join(f"{f[f'{m}_500ms_{q}']:.3g} {unit}" for q, unit in _UNITS.items())
            for m in ("hybrid", "nominal")
        )
        ratio = f["nominal_500ms_position_mm"] / max(f["hybrid_500ms_position_mm"], 1e-9)
        head = f"**{ratio:.3g} times closer than the nominal model.**"
        if ratio < 1.2:
            head = "**Hardly: the fitted model predicts no better than the nominal one.**"
        return f"{head} After 0.5 s the fitted model is off by {ours}, the nominal one by " \
               f"{nominal}. {seen}"  # fmt: skip
    ours, nominal = f.get("hybrid_rates_dps"), f.get("nominal_rates_dps")
    if ours is None or nominal is None:
        return seen
    return (
        f"With the last {f['rates_taps']} commands, roll and pitch rates are predicted to "
        f"**{ours:.2f} °/s**; taken as commanded, they are off by {nominal:.2f} °/s. {seen}"
    )


def _errors(result: Result) -> list[Part]:
    f = result.figures
    parts: list[Part] = []
    for horizon in reversed(HORIZONS):
        title, rows = error_table(f, result.errors, horizon)
        first = not parts and "hybrid_500ms_position_mm_spread" in f
        more = " ±: standard deviation over refits." if first else ""
        parts.append(Table(ERROR_HEADS, rows, caption=f"{title}.{more}"))
    better = all(
        f[f"online_body_500ms_{q}"] < f[f"online_500ms_{q}"] for q in QUANTITIES[:2]
    )  # fmt: skip
    if better:
        parts.append(Paragraph(
            "In flight, the online learner would predict this vehicle better with its inputs in "
            "the body frame: `lafr-mjx adapt --features body`."
        ))  # fmt: skip
    return parts


def _choice(choice: Any) -> list[Part]:
    text = (
        f"Body rates: **{choice.rates.name}**, ridge {choice.rates.ridge:g}. Acceleration: "
        f"**{choice.acceleration.name}**, ridge {choice.acceleration.ridge:g}. "
        f"{'With' if choice.network else 'Without'} a network on top. The training part alone "
        "was used, cut into blocks that were predicted by models of the others."
    )
    if not choice.scores:
        return [Paragraph(text + " It was too short for that: this is the cautious choice.")]
    width = max(map(len, choice.scores))
    lines = [f"{'candidate':<{width}}  {'mm':>8}  {'cm/s':>8}  {'°':>8}"]
    lines += [
        f"{name:<{width}}  " + "  ".join(f"{x:8.3g}" for x in score)
        for name, score in choice.scores.items()
    ]
    title = f"All {len(choice.scores)} candidates, cross-validated error at 0.5 s"
    return [Paragraph(text), Listing(title, "\n".join(lines))]
