"""Paths: smoothness, optimality, accuracy in float32, and how they are made."""

from __future__ import annotations

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lafr_mjx.errors import InputError
from lafr_mjx.reference import splines
from lafr_mjx.reference.path import derivatives, lap_s

RNG = np.random.default_rng(3)
POINTS = RNG.uniform(-2.0, 2.0, size=(7, 3)) + np.array([0.0, 0.0, 3.0])
YAW = np.linspace(0.0, 1.0, 7) ** 2
FIGURE8 = splines.from_harmonics(
    np.array([0.0, 0.0, 1.5]), np.array([[2.8, 0, 0], [0, 0.5, 0]]), np.zeros((2, 3)), 8.34
)

evaluate = jax.jit(derivatives)


def waypoint_path(periodic, **options):
    return splines.from_waypoints(POINTS, 9.0, periodic=periodic, yaw=YAW, **options)


def one_sided(path, segment, side):
    """All derivatives in phase of one segment's polynomial at one of its ends, [8, 4]."""
    width = path.breaks[segment + 1] - path.breaks[segment]
    polynomials = [np.polynomial.Polynomial(c) for c in path.coefficients[segment]]
    return np.array(
        [[p.deriv(m)(side) * (2.0 / width) ** m for p in polynomials] for m in range(8)]
    )


def snap_integral(path):
    """∫ |snap|² of x, y, z and yaw, exactly by Gauss-Legendre quadrature."""
    nodes, weights = np.polynomial.legendre.leggauss(6)
    middle = 0.5 * (path.breaks[1:] + path.breaks[:-1])
    half = 0.5 * np.diff(path.breaks)
    snap = derivatives(path, middle[:, None] + half[:, None] * nodes)[..., 4, :]
    return np.einsum("snd,n,s->d", snap**2, weights, half)


def hermite_bump(path, knot, order):
    """Coefficients that change one derivative at one inner knot and keep all values there."""
    rows = [
        [np.polynomial.Polynomial.basis(power).deriv(m)(side) for power in range(8)]
        for side in (-1.0, 1.0)
        for m in range(4)
    ]
    bump = np.zeros_like(path.coefficients)
    for segment, condition in ((knot - 1, 4 + order), (knot, order)):
        half_width = 0.5 * (path.breaks[segment + 1] - path.breaks[segment])
        wanted = np.zeros(8)
        wanted[condition] = half_width**order
        bump[segment] = np.linalg.solve(np.array(rows), wanted)
    return bump


@pytest.mark.parametrize("periodic", [False, True])
def test_six_derivatives_are_continuous_at_the_breaks(periodic):
    path = waypoint_path(periodic)
    segments = len(path.breaks) - 1
    pairs = [(i, i + 1) for i in range(segments - 1)] + [(segments - 1, 0)] * periodic
    for left, right in pairs:
        before, after = one_sided(path, left, 1.0), one_sided(path, right, -1.0)
        scale = np.abs(before).max(axis=1, keepdims=True) + 1e-9
        np.testing.assert_allclose((before / scale)[:7], (after / scale)[:7], atol=1e-8)


@pytest.mark.parametrize("periodic", [False, True])
def test_waypoints_are_passed_at_their_times(periodic):
    path = waypoint_path(periodic)
    found = derivatives(path, path.breaks[: len(POINTS)])[:, 0]
    np.testing.assert_allclose(found, np.column_stack([POINTS, YAW]), atol=1e-10)
    closed = np.vstack([POINTS, POINTS[:1]]) if periodic else POINTS
    chords = np.linalg.norm(np.diff(closed, axis=0), axis=1)
    np.testing.assert_allclose(np.diff(path.breaks), 9.0 * chords / chords.sum())


def test_given_times_are_scaled_to_the_duration():
    path = waypoint_path(True, times=[0, 1, 2, 3, 5, 6, 7, 9.5])
    np.testing.assert_allclose(path.breaks, np.array([0, 1, 2, 3, 5, 6, 7, 9.5]) * 9.0 / 9.5)


@pytest.mark.parametrize("periodic", [False, True])
def test_snap_is_least_among_all_curves_through_the_waypoints(periodic):
    path = waypoint_path(periodic)
    least = snap_integral(path)
    # Change the velocity, acceleration or jerk at one waypoint, and nothing else there: all
    # admissible changes of degree 7 are sums of these.
    for knot, order in np.ndindex(4, 3):
        variation = hermite_bump(path, knot + 1, order + 1)
        size = 1e-3 / np.abs(variation).max()
        cost = [
            snap_integral(path._replace(coefficients=path.coefficients + sign * size * variation))
            for sign in (-1.0, 1.0)
        ]
        assert np.all(np.array(cost) > least)
        assert np.all(np.abs(cost[1] - cost[0]) < 1e-3 * (cost[0] + cost[1] - 2.0 * least))
    # Among splines with an additional knot value: moving it away is always worse.
    phase = 0.5 * (path.breaks[3] + path.breaks[4])
    values = derivatives(path, phase)[0]
    times = np.insert(path.breaks, 4, phase)
    for move in (0.0, 1e-2, -1e-2):
        points = np.insert(POINTS, 4, values[:3] + move, axis=0)
        yaw = np.insert(YAW, 4, values[3] + move)
        moved = splines.from_waypoints(points, 9.0, periodic=periodic, yaw=yaw, times=times)
        if move == 0.0:
            np.testing.assert_allclose(snap_integral(moved), least, rtol=1e-6)
        else:
            assert np.all(snap_integral(moved) > least)


def test_rest_to_rest_starts_and_ends_at_rest_and_stays_there():
    path = waypoint_path(False)
    for segment, side in ((0, -1.0), (-2, 1.0)):
        ends = one_sided(path, segment % len(path.breaks), side)
        np.testing.assert_allclose(ends[1:4], 0.0, atol=1e-9)
    for phase, point in ((-1.0, 0), (0.0, 0), (9.0, -1), (1e6, -1)):
        for face in (derivatives, evaluate):
            found = face(path, phase)
            np.testing.assert_allclose(found[0, :3], POINTS[point], atol=1e-6)
            np.testing.assert_array_equal(found[1:], 0.0)


def test_closed_path_repeats():
    phase = np.linspace(0.0, 9.0, 50, endpoint=False)
    path = waypoint_path(True)
    for laps in (-2, 1, 5):
        np.testing.assert_allclose(
            derivatives(path, phase + laps * 9.0), derivatives(path, phase), atol=1e-9, rtol=1e-9
        )
    assert lap_s(path) == 9.0


def test_yaw_may_turn_full_circles():
    angles = np.arange(8) * 2.0 * np.pi / 8
    circle = np.column_stack([np.cos(angles), np.sin(angles), np.ones(8)])
    path = splines.from_waypoints(circle, 4.0, periodic=True, yaw=angles)
    phase = np.linspace(0.0, 4.0, 30)
    turning = derivatives(path, phase)[:, :, 3]
    np.testing.assert_allclose(turning[:, 1], 2.0 * np.pi / 4.0, rtol=1e-9)
    np.testing.assert_allclose(np.cos(turning[:, 0]), np.cos(np.pi / 2 * phase), atol=1e-9)


def test_derivatives_are_derivatives():
    path = waypoint_path(True)
    phase, step = np.linspace(0.0, 18.0, 200) + 1e-3, 1e-5
    ahead, behind = derivatives(path, phase + step), derivatives(path, phase - step)
    size = np.abs(ahead).max(axis=0)
    difference = (ahead - behind)[:, :4] / (2.0 * step)
    exact = derivatives(path, phase)[:, 1:]
    np.testing.assert_allclose(difference / size[1:], exact / size[1:], atol=2e-5)


@pytest.mark.parametrize("periodic", [False, True])
def test_float32_is_accurate(periodic):
    for path in (splines.with_segments(waypoint_path(periodic), 16), FIGURE8):
        phase = np.linspace(0.0, 2.0 * path.breaks[-1], 3001).astype(np.float32)
        exact = derivatives(path, phase.astype(float))
        found = np.asarray(evaluate(path, phase))
        assert found.dtype == np.float32
        assert np.abs(found - exact)[:, 0].max() < 1e-5
        relative = np.abs(found - exact).max(axis=(0, 2)) / np.abs(exact).max(axis=(0, 2))
        assert relative[4] < 1e-3
        assert np.all(relative[1:4] < 1e-4)


def test_one_program_serves_closed_and_open_paths():
    traces = []

    @jax.jit
    def position(path, phase):
        traces.append(1)
        return derivatives(path, phase)[..., 0, :3]

    for periodic in (False, True):
        path = splines.with_segments(waypoint_path(periodic), 16)
        assert path.coefficients.shape == (16, 4, 8)
        np.testing.assert_allclose(position(path, 1.0), derivatives(path, 1.0)[0, :3], atol=1e-5)
    assert len(traces) == 1


def test_vmap_over_paths_and_gradient_in_the_phase():
    paths = [splines.with_segments(waypoint_path(periodic), 16) for periodic in (False, True)]
    batch = jax.tree.map(lambda *x: jnp.stack([jnp.asarray(y) for y in x]), *paths)
    phase = jnp.linspace(0.5, 8.0, 6)
    found = jax.vmap(lambda p: evaluate(p, phase))(batch)
    for i, path in enumerate(paths):
        np.testing.assert_allclose(found[i], evaluate(path, phase), rtol=1e-4, atol=1e-4)
    slope = jax.vmap(jax.jacfwd(lambda s: derivatives(paths[1], s)[0]))(phase)
    np.testing.assert_allclose(slope, found[1][:, 1], rtol=1e-4, atol=1e-4)


def test_cutting_into_more_segments_changes_nothing():
    path = waypoint_path(False)
    phase = np.linspace(-0.5, 9.5, 333)
    finer = splines.with_segments(path, 48)
    assert len(finer.breaks) == 49
    exact = derivatives(path, phase)
    size = np.abs(exact).max(axis=0)
    np.testing.assert_allclose(derivatives(finer, phase) / size, exact / size, atol=1e-9)
    with pytest.raises(ValueError, match="cannot have"):
        splines.with_segments(path, 3)


def test_harmonics_agree_with_the_curve():
    phase = np.linspace(0.0, 8.34, 2001)
    found = derivatives(FIGURE8, phase)
    for axis, amplitude, speed in ((0, 2.8, 2 * np.pi / 8.34), (1, 0.5, 4 * np.pi / 8.34)):
        for order, tolerance in ((0, 1e-6), (1, 1e-5), (2, 1e-4), (3, 1e-3)):
            size = amplitude * speed**order
            exact = size * np.sin(speed * phase + order * np.pi / 2)
            assert np.abs(found[:, order, axis] - exact).max() < tolerance * size
    many = splines.from_harmonics(np.zeros(3), np.zeros((5, 3)), np.eye(5, 3)[::-1], 3.0)
    angles = np.outer(2 * np.pi / 3.0 * phase, np.arange(1, 6))
    np.testing.assert_allclose(
        derivatives(many, phase)[:, 0, :3], np.cos(angles) @ np.eye(5, 3)[::-1], atol=1e-6
    )


@pytest.mark.parametrize("periodic", [False, True])
def test_samples_are_fitted(periodic):
    exact = waypoint_path(periodic, times=np.arange(7 + periodic))
    phase = np.linspace(0.0, 9.0, 401)
    points = derivatives(exact, phase)[:, 0, :3]
    path = splines.from_samples(points, 9.0, periodic=periodic, segments=24)
    found = derivatives(path, phase)[:, 0, :3]
    assert np.abs(found - points).max() < 1e-4
    assert np.ptp(derivatives(path, phase)[:, 0, 3]) == 0.0
    noisy = points + RNG.normal(scale=0.002, size=points.shape)
    noisy[-1] = noisy[0] if periodic else noisy[-1]
    smooth = derivatives(splines.from_samples(noisy, 9.0, periodic=periodic, segments=24), phase)
    assert np.sqrt(np.mean((smooth[:, 0, :3] - points) ** 2)) < 0.001


def test_unusable_input_is_refused():
    line = np.linspace([0, 0, 1], [1, 0, 1], 40)
    kinked = np.vstack([line, line[::-1] + np.array([0, 0.5, 0])])
    square = [[0, 0, 1], [1, 0, 1], [1, 1, 1], [0, 1, 1]]
    cases = [
        (lambda: splines.from_waypoints([[0, 0, 1]], 1.0, periodic=True), "at least 2 rows"),
        (lambda: splines.from_waypoints([[0, 0], [1, 1]], 1.0, periodic=True), "3 numbers"),
        (lambda: splines.from_waypoints(square, 0.0, periodic=True), "must be > 0"),
        (lambda: splines.from_waypoints(square, float("nan"), periodic=True), "must be > 0"),
        (lambda: splines.from_waypoints([*square[:2], square[1]], 1.0, periodic=False), "1 and 2"),
        (lambda: splines.from_waypoints([*square, square[0]], 1.0, periodic=True), "4 and 0"),
        (lambda: splines.from_waypoints(square, 1.0, periodic=True, yaw=[0.0]), "yaw"),
        (lambda: splines.from_waypoints(square, 1.0, periodic=True, times=[0, 1, 2, 3]), "times"),
        (lambda: splines.from_waypoints(square, 1, periodic=False, times=[0, 1, 1, 2]), "increase"),
        (lambda: splines.from_waypoints(square, 1, periodic=False, times=[1, 2, 3, 4]), "with 0"),
        (lambda: splines.from_waypoints(square * np.array(np.nan), 1, periodic=True), "finite"),
        (lambda: splines.from_samples(kinked, 1.0, periodic=False, segments=16), "at rest"),
        (lambda: splines.from_samples(kinked, 1.0, periodic=True, segments=16), "more segments"),
        (lambda: splines.from_samples(line, 1.0, periodic=False, segments=32), "too few"),
        (lambda: splines.from_samples(line, 1.0, periodic=False, segments=0), "0 segments"),
        (lambda: splines.from_harmonics([0, 0, 1], [[0, 0, 0]], [[0, 0, 0]], 1.0), "zero"),
        (lambda: splines.from_harmonics([0, 0], [[1, 0, 0]], [[0, 0, 0]], 1.0), "centre"),
        (lambda: splines.from_harmonics([0, 0, 1], np.eye(3), np.eye(2, 3), 1.0), "as many"),
        (lambda: splines.from_harmonics([0, 0, 1], np.eye(3), np.eye(3), 1.0, segments=8), "few"),
        (lambda: splines.from_harmonics([0, 0, np.inf], np.eye(3), np.eye(3), 1.0), "finite"),
    ]
    for make, message in cases:
        with pytest.raises(InputError, match=message):
            make()


def test_uneven_times_work_up_to_a_limit():
    square = np.array([[0, 0, 1], [1, 0, 1], [1, 1, 1], [0, 1, 1]], dtype=float)
    path = splines.from_waypoints(square, 1.0, periodic=False, times=[0, 1, 1.0101, 2])
    np.testing.assert_allclose(derivatives(path, path.breaks)[:, 0, :3], square, atol=1e-9)
    before, after = one_sided(path, 0, 1.0)[:7], one_sided(path, 1, -1.0)[:7]
    np.testing.assert_allclose(before, after, rtol=1e-6, atol=1e-6)
    with pytest.raises(InputError, match="factor of"):
        splines.from_waypoints(square, 1.0, periodic=False, times=[0, 1, 1.001, 2])


def test_the_numpy_face_imports_no_jax():
    code = (
        "import sys\n"
        "from lafr_mjx import so3, tasks\n"
        "from lafr_mjx.reference import clock, flatness, path, splines\n"
        "task = tasks.load_task('figure8')\n"
        "now = clock.advance(task.start_clock(), 0.5)\n"
        "reference = flatness.reference_at(task.path, now, 0.02)\n"
        "so3.log(reference.rotation)\n"
        "flatness.time_scale_derivative(task.path, 0.0, 1.0, 1.0)\n"
        "assert reference.position.dtype == 'float64'\n"
        "assert not [m for m in sys.modules if m.split('.')[0] in ('jax', 'jaxlib', 'scipy')]\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
