"""A report as HTML and as Markdown: nothing is lost, and nothing is taken for markup."""

from __future__ import annotations

from html.parser import HTMLParser

from lafr_mjx.view.page import (
    Badge,
    Items,
    Listing,
    Page,
    Paragraph,
    Picture,
    Section,
    Table,
    to_html,
    to_markdown,
)

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (1000).to_bytes(4, "big") + (500).to_bytes(4, "big")
PAGE = Page(
    "Title <1>", "Lead & more, see `a < b`", contents=True, foot="end",
    sections=[
        Section("First part", [
            Paragraph("**bold** and 2*3*4"),
            Table(("what", "value"), [("a|b", "1.0"), ("<script>", Badge("better", "better"))]),
            Items(["fine", "Looks wrong: x"], lambda line: line.startswith("Looks wrong")),
        ]),
        Section("Second part", [
            Picture("curve", PNG, 'a "curve"', "Caption.", "lafr-mjx adapt 'x'"),
            Listing("Settings", "a = 1\n```\n"),
        ]),
    ],
)  # fmt: skip


class _Tags(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.text = [], [], ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes.append(dict(attrs))

    def handle_data(self, data):
        self.text += data


def test_html_escapes_and_embeds():
    seen = _Tags(to_html(PAGE))
    assert "script" not in seen.tags and "<script>" in seen.text
    assert seen.tags.count("h2") == 2 and seen.tags.count("img") == 1
    assert "Title <1>" in seen.text and "a < b" in seen.text and "2*3*4" in seen.text
    image = next(a for t, a in zip(seen.tags, seen.attributes, strict=True) if t == "img")
    assert image["src"].startswith("data:image/png;base64,")
    assert image["alt"] == 'a "curve"' and image["width"] == "580"
    # Links lead to sections that are there, and nowhere else.
    ids = {a["id"] for t, a in zip(seen.tags, seen.attributes, strict=True) if t == "h2"}
    links = {a["href"] for t, a in zip(seen.tags, seen.attributes, strict=True) if t == "a"}
    assert links == {f"#{name}" for name in ids}
    assert "http" not in to_html(PAGE)


def test_markdown_says_the_same():
    text = to_markdown(PAGE, lambda picture: f"files/{picture.name}.png")
    assert text.startswith("<!-- generator: lafr-mjx -->\n\n# Title <1>")
    assert "| a\\|b | 1.0 |" in text
    assert "| <script> | **better** |" in text
    assert "|---|---:|" in text
    assert '![a "curve"](files/curve.png)' in text
    assert "````\na = 1\n```\n````" in text
