"""The learner on a plant of another kind: safe, faster, and it knows how well it will fly."""

from pathlib import Path

import numpy as np
import pytest

import lafr_mjx as lm

pytestmark = pytest.mark.long

PLANT = Path(__file__).with_name("foreign_plant.py")


def test_it_adapts_to_a_foreign_plant(tmp_path):
    engine = f"{PLANT}:ForeignPlant(wind=[0.0, -4.0, 0.0], weaker=0.85)"
    run = lm.adapt("figure8", engine=engine, iterations=5, seed=200, out=tmp_path / "run")
    table = run.table
    assert not table["crashed"].any()
    # The base policy knows neither wind nor weak motors; what was learned flies without help.
    assert not table["fallback"].any() and (table["slow_down_factor"][1:] < 1.01).all()
    assert table["peak_error_m"][1:].max() < 0.5 * table["peak_error_m"][0]
    assert table["peak_speed_mps"][-1] > 1.8 * table["peak_speed_mps"][0]
    ratios = table["peak_error_m"][1:] / table["predicted_peak_error_m"][1:].astype(float)
    assert 0.6 < np.median(ratios) < 1.6 and ratios.max() < 2.5, ratios
