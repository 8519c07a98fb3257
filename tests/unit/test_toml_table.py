"""Errors of settings files name the file, the key, the value and what is allowed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lafr_mjx.errors import InputError
from lafr_mjx.toml_table import read_toml


@pytest.fixture
def write(tmp_path):
    def write(text: str | bytes):
        path = tmp_path / "file.toml"
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    return write


def test_values_come_back_typed(write):
    table = read_toml(write('a = 1\nb = 2.5\nc = "x"\nd = [1, 2]\ne = true\n[t]\nf = 3\n'))
    assert table.number("a") == 1.0
    assert table.number("b", above=2, at_most=3) == 2.5
    assert table.string("c", choices=("x", "y")) == "x"
    assert table.vector("d", 2).tolist() == [1.0, 2.0]
    assert table.boolean("e") is True
    assert table.table("t").integer("f") == 3
    assert table.number("absent", 7.0) == 7.0
    table.finish()


@pytest.mark.parametrize(
    ("text", "read", "expected"),
    [
        ("a = -1", lambda t: t.number("a", above=0), "'a' is -1; it must be a number > 0"),
        ("a = nan", lambda t: t.number("a"), "'a' is nan"),
        ("a = 1e400", lambda t: t.number("a"), "'a' is inf"),
        ("a = true", lambda t: t.number("a"), "'a' is True"),
        ('a = "1"', lambda t: t.number("a"), "'a' is '1'"),
        ("a = 1.5", lambda t: t.integer("a"), "a whole number"),
        ("a = [1, 2]", lambda t: t.vector("a", 3), "a list of 3 numbers"),
        ("a = [1, 2, 9]", lambda t: t.vector("a", 3, at_most=5), "each <= 5"),
        ("a = [[1, 2], [3]]", lambda t: t.matrix("a", 2), "lists of 2 numbers"),
        ('a = "z"', lambda t: t.string("a", choices=("x", "y")), "one of 'x', 'y'"),
        ("a = 1", lambda t: t.table("a"), "a table"),
        ("", lambda t: t.number("a"), "'a' is missing"),
        ("[t]\nb = 1", lambda t: t.table("t").string("b"), "'t.b' is 1"),
    ],
)
def test_bad_values_are_named(write, text, read, expected):
    path = write(text)
    with pytest.raises(InputError) as error:
        read(read_toml(path))
    assert expected in str(error.value)
    assert str(path) in str(error.value)


def test_unknown_keys_get_a_hint(write):
    table = read_toml(write("mass_kgs = 1\n"))
    table.number("mass_kg", 1.0)
    with pytest.raises(InputError, match=r"unknown key 'mass_kgs'; did you mean 'mass_kg'"):
        table.finish()


def test_unknown_keys_in_sub_tables_are_found(write):
    table = read_toml(write("[a]\nx = 1\ny = 2\n"))
    table.table("a").number("x")
    with pytest.raises(InputError, match=r"unknown key 'a\.y'"):
        table.finish()


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"a = 1\na = 2\n", "not valid TOML"),
        (b"a = \n", "not valid TOML"),
        (b"\xff\xfe\x00", "not UTF-8"),
        (b"a = " + b"[" * 5000 + b"]" * 5000, "nested too deeply"),
        (b"a = 1 #" + b"x" * 1_100_000, "bytes; a settings file has at most"),
    ],
)
def test_broken_files_give_one_clear_line(write, content, expected):
    path = write(content)
    with pytest.raises(InputError) as error:
        read_toml(path)
    assert expected in str(error.value)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


@given(st.binary(max_size=200))
def test_random_bytes_never_give_a_traceback(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("random") / "file.toml"
    path.write_bytes(content)
    try:
        read_toml(path)
    except InputError as error:
        assert str(path) in str(error)
