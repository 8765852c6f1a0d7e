"""The table and the picture of a report tell its numbers, whatever they are."""

import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reports import SVG, rates, report

from threadloader.bench import Choice, picture
from threadloader.bench._table import _wrapped


def test_one_is_not_told_as_many():
    one = replace(report({0: 10.0}), data={**report({0: 10.0}).data, "steps": 1})
    told = " ".join(str(replace(one, system=one.system | {"cores": 1})).split())
    assert ", 1 batch an epoch. CPython" in told
    assert ", 1 core, " in told


@pytest.mark.parametrize(
    ("plan", "told"),
    [
        ({"batches": 2}, "1 run of 1 batch after the first batch"),
        ({"batches": 1001, "seconds": 5}, "1 run of 5 s or 1,000 batches after the first batch"),
    ],
    ids=str,
)
def test_the_table_tells_the_batches_behind_the_first(plan, told):
    """--batches counts the first one, which is not in the measured time."""
    assert f"Each setting: {told}" in " ".join(str(report({0: 10.0}, repeat=1, **plan)).split())


@pytest.mark.parametrize("waits", [None, {0: 0.5, 16: 0.001}])
def test_the_table_has_a_line_for_each_setting(waits):
    text = str(report({0: 1234.5, 16: 2e6}, waits, compare="torch"))
    lines = text.split("\n")
    assert 2 == sum(line.lstrip().startswith("16 ") for line in lines)
    assert 2 == sum(" 1,23" in line for line in lines)
    assert (waits is None) == ("No training step" in text)
    assert (waits is not None) == ("50.0%  poor" in text)
    assert "\nChoice: num_workers 16. " in text
    assert "\n- One thing.\n- Another thing, " in text
    assert max(map(len, lines)) <= 100


@pytest.mark.parametrize(
    ("wait", "told", "band"),
    [(0.00999, "0.9%", "excellent"), (0.0499, "4.9%", "good"), (0.1999, "19.9%", "fair")],
)
def test_the_number_of_a_wait_lies_in_its_band(wait, told, band):
    """In the table, where it stands before the band, and in the picture, beside its name."""
    measured = report({2: 10.0}, {2: wait})
    assert f"{told}  {band}" in str(measured)
    assert f">{told}</text>" in picture(measured)


def test_numbers_that_the_system_does_not_tell_are_a_dash():
    lines = str(report({2: 10.0})).split("\n")
    (line,) = [line for line in lines if line.lstrip().startswith("2 ")]
    assert 4 == line.split().count("-")


@settings(deadline=None, max_examples=50)
@given(rates, st.randoms(), st.booleans(), st.sampled_from(["", "torch"]), st.text(max_size=60))
def test_the_picture_is_sound_whatever_the_numbers(rates, random, step, compare, config):
    """It is XML, every place in it lies within its size, and each setting has its points."""
    waits = {workers: random.choice([0.0, 0.01, 1.0]) for workers in rates} if step else None
    root = ET.fromstring(picture(report(rates, waits, compare, config)))
    width, height = map(float, root.attrib["viewBox"].split()[2:])
    for element in root.iter():
        for name in ("x", "cx", "x1", "x2"):
            assert 0 <= float(element.attrib.get(name, 0)) <= width
        for name in ("y", "cy", "y1", "y2"):
            assert 0 <= float(element.attrib.get(name, 0)) <= height
    points = [it for it in root.iter(f"{SVG}circle") if it.find(f"{SVG}title") is not None]
    assert len(rates) * (2 if compare else 1) * (2 if step else 1) == len(points)


@pytest.mark.parametrize("name", ["c\udcff.json", "c\x1b.json", "c\ud800\n.json"], ids=ascii)
def test_a_config_may_be_named_by_anything(name):
    """What cannot stand in XML, or in UTF-8, is not in the picture."""
    text = picture(report({0: 10.0, 8: 20.0}, config=name))
    title = ET.fromstring(text.encode()).find(f"{SVG}title").text
    assert title.startswith("c\N{REPLACEMENT CHARACTER}")


def test_the_picture_tells_axes_legend_choice_and_both_backgrounds():
    text = picture(report({0: 10.0, 8: 20.0}, {0: 0.3, 8: 0.0}, "torch", config="a/<b>&.json#/c"))
    words = {element.text for element in ET.fromstring(text).iter(f"{SVG}text")}
    assert {
        "<b>&.json#/c: a step of 8 ms (a sleep)",
        "Samples per second",
        "Data wait, part of the time (%)",
        "num_workers",
        "threadloader (threads)",
        "PyTorch DataLoader (processes)",
        "chosen",
        "poor",
    } <= words
    assert "@media (prefers-color-scheme:dark)" in text


def test_the_picture_has_a_bar_where_the_runs_of_a_setting_differ():
    """From the slowest to the fastest, at that setting alone."""
    same = report({0: 10.0, 2: 20.0})
    apart = replace(same.rows[1], samples_per_second_runs=(15.0, 20.0, 25.0))
    drawn = [
        [
            line
            for line in ET.fromstring(picture(it)).iter(f"{SVG}line")
            if "range " in str(line.attrib)
        ]
        for it in (same, replace(same, rows=(same.rows[0], apart)))
    ]
    assert [0, 1] == [len(bars) for bars in drawn]
    (bar,) = drawn[1]
    assert bar.attrib["x1"] == bar.attrib["x2"]
    assert float(bar.attrib["y1"]) > float(bar.attrib["y2"])


def test_where_nothing_is_chosen_nothing_is_marked():
    """Neither in the picture nor in its legend; the table and the JSON say so, too."""
    none = replace(report({0: 10.0, 8: 20.0}), choice=Choice(None, "Why."))
    text = picture(none)
    assert [] == [it for it in ET.fromstring(text).iter() if it.get("class") == "chosen"]
    assert ">chosen<" not in text
    assert "\nChoice: none. Why.\n" in str(none)
    assert {"num_workers": None, "why": "Why."} == none.as_dict()["choice"]


def test_without_a_step_the_picture_says_why_it_has_no_data_wait():
    assert "there is no data wait to draw" in picture(report({0: 10.0}))


def test_a_path_is_not_broken_within_itself():
    """So that it can be copied."""
    path = "/a" * 80
    assert ["the config", path, "of the"] == _wrapped(f"the config {path} of the")


def test_a_name_with_a_line_end_stays_on_its_line():
    text = str(replace(report({0: 10.0}), config="new\nline.json"))
    assert text.startswith("new\\nline.json: batch_size ")


def test_a_bound_in_bytes_is_shown_beside_the_depth():
    measured = report({0: 10.0})
    assert "prefetch_batches 3, 3 batches" in str(measured)
    bounded = replace(measured, data={**measured.data, "max_bytes": 2 << 20})
    assert "prefetch_batches 3, max_bytes 2,097,152, 3 batches" in " ".join(str(bounded).split())
