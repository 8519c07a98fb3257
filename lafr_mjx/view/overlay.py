"""Text on pictures: who flies, which iteration, how fast, how far off."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib as mpl
import numpy as np
from PIL import Image, ImageDraw, ImageFont

from lafr_mjx.view.decorations import speed_colour

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lafr_mjx.view.decorations import Legend
    from lafr_mjx.view.shown_flight import Flight, Moment

_INK, _DIM, _PANEL = (255, 255, 255, 255), (205, 214, 224, 255), (14, 20, 28, 165)
_ALARM = (255, 120, 90, 255)


@lru_cache
def font(size: int, *, bold: bool = False) -> ImageFont.FreeTypeFont:
    """DejaVu Sans, which comes with Matplotlib."""
    name = "DejaVuSans-Bold.ttf" if bold else "DejaVuSans.ttf"
    return ImageFont.truetype(str(Path(mpl.get_data_path()) / "fonts" / "ttf" / name), size)


def annotate(
    picture: np.ndarray,
    shown: Sequence[tuple[str, Flight, Moment]],
    top_speed: float,
    footnote: str = "",
    legend: Legend | None = None,
) -> np.ndarray:
    """The picture with one panel for each flight, the scale of speeds and what is what.

    Args:
        picture: [height, width, 3] uint8.
        shown: name of the run, flight, and moment of it, one for each stage.
        top_speed: upper end of the colours [m/s].
        footnote: small print, bottom left.
        legend: names and colours of the lines, below the scale.
    """
    image = Image.fromarray(picture)
    draw = ImageDraw.Draw(image, "RGBA")
    unit = picture.shape[0] / 360.0
    x = 8.0 * unit
    for name, flight, moment in shown:
        x = _panel(draw, x, 8.0 * unit, unit, name, flight, moment) + 8.0 * unit
    speed_bar(image, draw, top_speed, unit, legend or [])
    if footnote:
        place = (10.0 * unit, picture.shape[0] - 8.0 * unit)
        draw.text(place, footnote, _DIM, font(round(9 * unit)), anchor="ls")
    return np.asarray(image)


def _panel(
    draw: ImageDraw.ImageDraw,
    x: float,
    y: float,
    unit: float,
    name: str,
    flight: Flight,
    moment: Moment,
) -> float:
    """One flight's figures; returns the panel's right edge."""
    small, plain, large = font(round(10 * unit)), font(round(11 * unit)), round(21 * unit)
    title = font(round(13 * unit), bold=True)
    width = max(200.0 * unit, draw.textlength(name, small) + 20.0 * unit)
    height = 82.0 * unit
    draw.rounded_rectangle((x, y, x + width, y + height), 6.0 * unit, _PANEL)
    left, right = x + 10.0 * unit, x + width - 10.0 * unit
    draw.text((left, y + 17.0 * unit), flight.title, _INK, title, anchor="ls")
    draw.text((right, y + 17.0 * unit), f"{moment.time:.1f} s", _DIM, plain, anchor="rs")
    draw.text((left, y + 31.0 * unit), name, _DIM, small, anchor="ls")
    crashed = moment.event == "crash"
    speed = "crashed" if crashed else f"{moment.speed:.1f}"
    colour = _ALARM if crashed else _INK
    big = font(large, bold=True)
    draw.text((left, y + 56.0 * unit), speed, colour, big, anchor="ls")
    after = left + draw.textlength(speed, big) + 4.0 * unit
    if not crashed:
        draw.text((after, y + 56.0 * unit), "m/s", _DIM, plain, anchor="ls")
        draw.text((right, y + 60.0 * unit), moment.event, _ALARM, plain, anchor="rs")
    took = flight.metrics.lap_time_s
    lap = f"lap {int(moment.lap) + 1}" + (f" · {took:.2f} s" if took else "")
    draw.text((right, y + 46.0 * unit), lap, _INK, plain, anchor="rs")
    error = f"error {moment.error:.2f} m"
    draw.text((left, y + 74.0 * unit), error, _INK, plain, anchor="ls")
    scale = f"time scale {moment.time_scale:.2f}"
    draw.text((right, y + 74.0 * unit), scale, _DIM, plain, anchor="rs")
    return x + width


def speed_bar(
    image: Image.Image, draw: ImageDraw.ImageDraw, top_speed: float, unit: float, legend: Legend
) -> None:
    """The scale of speeds, in the top right corner, and below it what other colours mean."""
    width, height = round(110 * unit), round(7 * unit)
    shades = speed_colour(np.linspace(0.0, top_speed, width), top_speed)[:, :3]
    bar = np.tile((255.0 * shades).astype(np.uint8), (height, 1, 1))
    left, top = image.width - width - round(14 * unit), round(12 * unit)
    image.paste(Image.fromarray(bar), (left, top))
    small, below = font(round(9 * unit)), top + height + 2.0 * unit
    draw.text((left, below), "0", _INK, small, anchor="lt")
    draw.text((left + width, below), f"{top_speed:.1f} m/s", _INK, small, anchor="rt")
    if legend:
        box = (left - 6.0 * unit, below + 14.0 * unit, left + width + 6.0 * unit,
               below + (19.0 + 12.0 * len(legend)) * unit)  # fmt: skip
        draw.rounded_rectangle(box, 5.0 * unit, _PANEL)
    for row, (name, rgba) in enumerate(legend):
        y = below + (23.0 + 12.0 * row) * unit
        area = rgba[3] < 0.5
        colour = tuple(round(255.0 * share) for share in (*rgba[:3], 0.5 if area else 1.0))
        high = 4.0 if area else 1.0
        draw.rectangle((left, y - high * unit, left + 16.0 * unit, y + high * unit), colour)
        draw.text((left + 22.0 * unit, y), name, _INK, small, anchor="lm")


def framed(picture: np.ndarray, unit: float, caption: str) -> Image.Image:
    """A small picture with a thin border and a caption, to be laid onto a large one."""
    image = Image.fromarray(picture)
    draw = ImageDraw.Draw(image, "RGBA")
    edge = (0, 0, image.width - 1, image.height - 1)
    draw.rectangle(edge, outline=(235, 240, 245, 220), width=max(1, round(unit)))
    place = (6.0 * unit, 6.0 * unit)
    draw.text(place, caption, _INK, font(round(9 * unit)), anchor="lt")
    return image
