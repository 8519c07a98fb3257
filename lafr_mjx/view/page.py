"""A report as data, written as one self-contained HTML page and as Markdown.

Texts may hold `code` in backticks and **bold** words; everything else is taken literally.
"""

from __future__ import annotations

import base64
import html
import re
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

GENERATOR = "lafr-mjx"
"""What the head of each page names; a file without it is not ours to replace."""

Tone = Literal["good", "better", "bad", "plain"]


class Badge(NamedTuple):
    """A word in a cell that stands out."""

    text: str
    tone: Tone


class Paragraph(NamedTuple):
    """A few sentences; a warning stands out."""

    text: str
    warning: bool = False


class Items(NamedTuple):
    """A list; warnings stand out."""

    lines: Sequence[str]
    warns: Callable[[str], bool] = lambda line: False


class Table(NamedTuple):
    """Cells are text or badges; the first `text_columns` are to the left, numbers to the right."""

    heads: Sequence[str]
    rows: Sequence[Sequence[str | Badge]]
    text_columns: int = 1
    caption: str = ""


class Picture(NamedTuple):
    """A PNG with what can be seen on it and the command that made its data."""

    name: str  # of its file, without an ending
    png: bytes
    alt: str
    caption: str = ""
    command: str = ""


class Listing(NamedTuple):
    """Text as it is, folded away until it is wanted."""

    title: str
    text: str


Part = Paragraph | Items | Table | Picture | Listing


class Section(NamedTuple):
    """A heading with what stands below it."""

    title: str
    parts: Sequence[Part]


class Page(NamedTuple):
    """A whole report."""

    title: str
    lead: str
    sections: Sequence[Section]
    contents: bool = False  # links to the sections at the top
    foot: str = ""


_SCALE = 0.58  # of the page's pixels to a picture's: 200 of these make an inch

_STYLE = """
:root{--ink:#1f2933;--soft:#5f6c7b;--line:#e1e5ea;--accent:#0072B2;--paper:#fff;--panel:#f6f8fa}
*{box-sizing:border-box}
html{color-scheme:light;-webkit-text-size-adjust:100%}
body{font:16px/1.6 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif;margin:0;
color:var(--ink);background:var(--panel)}
main{max-width:66rem;margin:0 auto;padding:2.2rem clamp(1rem,4vw,3rem) 4rem;background:var(--paper);
min-height:100vh;box-shadow:0 0 0 1px var(--line)}
h1{font-size:1.9rem;line-height:1.25;margin:.2rem 0 .6rem;letter-spacing:-.01em}
h2{font-size:1.3rem;margin:3rem 0 .7rem;padding-top:1.1rem;border-top:1px solid var(--line)}
p{margin:.7rem 0;max-width:48rem}.lead{font-size:1.06rem;color:#3a4653}
code{font:.87em ui-monospace,SFMono-Regular,Menlo,"DejaVu Sans Mono",monospace;
background:var(--panel);border:1px solid var(--line);border-radius:4px;padding:.05em .3em;
overflow-wrap:anywhere}
nav{display:flex;flex-wrap:wrap;gap:.3rem .45rem;margin:1.2rem 0}
nav a{font-size:.88rem;color:var(--accent);text-decoration:none;border:1px solid var(--line);
border-radius:99px;padding:.12rem .75rem}nav a:hover{background:var(--panel)}
.scroll{overflow-x:auto;margin:1rem 0}
table{border-collapse:collapse;font-size:.86rem;line-height:1.45;min-width:min(100%,26rem)}
th{font-weight:600;color:var(--soft);border-bottom:2px solid var(--line);vertical-align:bottom}
td,th{padding:.42rem .7rem .42rem 0;text-align:right;vertical-align:top;
font-variant-numeric:tabular-nums}
td{white-space:nowrap}td.t,th.t{text-align:left;white-space:normal}
td.t code{display:inline-block;min-width:20rem}
td{border-bottom:1px solid var(--line)}tr:last-child td{border-bottom:0}
caption{caption-side:bottom;text-align:left;color:var(--soft);font-size:.86rem;padding-top:.5rem}
.badge{display:inline-block;white-space:nowrap;border-radius:99px;padding:.02rem .6rem;
font-size:.82rem;font-weight:600;border:1px solid}
.good{color:#0b6b4f;background:#e5f5ef;border-color:#b5dfd0}
.better{color:#0b5a8a;background:#e4f1f9;border-color:#b3d6ea}
.bad{color:#9a3412;background:#fdf0e8;border-color:#f3cdb5}
.plain{color:var(--soft);background:var(--panel);border-color:var(--line)}
figure{margin:1.5rem 0}figure img{display:block;max-width:100%;height:auto;margin:0 auto;
border:1px solid var(--line);border-radius:6px;padding:.6rem;background:#fff}
figcaption{color:var(--soft);font-size:.9rem;margin-top:.55rem;max-width:52rem}
figcaption code{display:inline-block;margin-top:.2rem}
details{margin:.5rem 0;border:1px solid var(--line);border-radius:6px;padding:.35rem .9rem}
summary{cursor:pointer;font-size:.92rem}
pre{font:.8rem/1.45 ui-monospace,SFMono-Regular,Menlo,"DejaVu Sans Mono",monospace;
overflow-x:auto;margin:.6rem 0;white-space:pre}
.warn{color:#9a3412}li{margin:.2rem 0;overflow-wrap:anywhere}
footer{margin-top:3rem;color:var(--soft);font-size:.86rem}
@media (max-width:40rem){body{font-size:15px}h1{font-size:1.5rem}td,th{padding-right:.6rem}}
@media print{body{background:#fff}main{box-shadow:none;max-width:none}h2{break-after:avoid}
figure,table{break-inside:avoid}}
"""


def to_html(page: Page) -> str:
    """One page that needs no other file and no network."""
    body = [f"<h1>{_html(page.title)}</h1>"]
    if page.lead:
        body.append(f'<p class="lead">{_html(page.lead)}</p>')
    if page.contents:
        links = "".join(
            f'<a href="#{_anchor(s.title)}">{_html(s.title)}</a>' for s in page.sections
        )
        body.append(f"<nav>{links}</nav>")
    for section in page.sections:
        body.append(f'<h2 id="{_anchor(section.title)}">{_html(section.title)}</h2>')
        body += [_part_html(part) for part in section.parts]
    if page.foot:
        body.append(f"<footer>{_html(page.foot)}</footer>")
    text = "\n".join(body)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f'<meta name="generator" content="{GENERATOR}">'
        '<link rel="icon" href="data:,">'  # or browsers ask for a file that is not there
        f"<title>{html.escape(page.title)}</title><style>{_STYLE}</style></head>\n"
        f"<body><main>\n{text}\n</main></body></html>\n"
    )


def to_markdown(page: Page, place: Callable[[Picture], str]) -> str:
    """The same as Markdown; `place` says where the file of a picture is."""
    blocks = [f"<!-- generator: {GENERATOR} -->", f"# {page.title}", page.lead]
    for section in page.sections:
        blocks.append(f"## {section.title}")
        blocks += [_part_markdown(part, place) for part in section.parts]
    return "\n\n".join(block for block in (*blocks, page.foot) if block) + "\n"


def _part_html(part: Part) -> str:
    match part:
        case Paragraph():
            mark = ' class="warn"' if part.warning else ""
            return f"<p{mark}>{_html(part.text)}</p>"
        case Items():
            marks = (' class="warn"' if part.warns(line) else "" for line in part.lines)
            lines = zip(marks, part.lines, strict=True)
            return f"<ul>{''.join(f'<li{mark}>{_html(line)}</li>' for mark, line in lines)}</ul>"
        case Table():
            return _table_html(part)
        case Picture():
            data = base64.b64encode(part.png).decode("ascii")
            command = f"<br><code>{html.escape(part.command)}</code>" if part.command else ""
            return (
                f'<figure><img alt="{html.escape(part.alt)}"{_size(part.png)} '
                f'src="data:image/png;base64,{data}">'
                f"<figcaption>{_html(part.caption)}{command}</figcaption></figure>"
            )
        case Listing():
            return (
                f"<details><summary>{_html(part.title)}</summary>"
                f"<pre>{html.escape(part.text)}</pre></details>"
            )


def _size(png: bytes) -> str:
    """Attributes that show a picture with letters as large as the page's, narrow or wide."""
    if png[12:16] != b"IHDR":
        return ""
    width, height = (int.from_bytes(png[i : i + 4], "big") for i in (16, 20))
    return f' width="{round(_SCALE * width)}" height="{round(_SCALE * height)}"'


def _table_html(table: Table) -> str:
    def row(cells: Sequence[str | Badge], tag: str) -> str:
        parts = []
        for i, cell in enumerate(cells):
            mark = ' class="t"' if i < table.text_columns or isinstance(cell, Badge) else ""
            parts.append(f"<{tag}{mark}>{_cell_html(cell)}</{tag}>")
        return f"<tr>{''.join(parts)}</tr>"

    caption = f"<caption>{_html(table.caption)}</caption>" if table.caption else ""
    body = "".join(row(cells, "td") for cells in table.rows)
    return (
        f'<div class="scroll"><table>{caption}<thead>{row(table.heads, "th")}</thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _cell_html(cell: str | Badge) -> str:
    if isinstance(cell, Badge):
        return f'<span class="badge {cell.tone}">{html.escape(cell.text)}</span>'
    return _html(str(cell))


def _html(text: str) -> str:
    escaped = html.escape(text)
    escaped = re.sub(r"`([^`]+)`", r"<code>\1</code>", escaped)
    return re.sub(r"\*\*([^*]+)\*\*", r"<strong>\1</strong>", escaped)


def _anchor(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def _part_markdown(part: Part, place: Callable[[Picture], str]) -> str:
    match part:
        case Paragraph():
            return f"**{part.text}**" if part.warning else part.text
        case Items():
            return "\n".join(f"- {line}" for line in part.lines)
        case Table():
            lines = [_row_markdown(part.heads)]
            sides = ("---" if i < part.text_columns else "---:" for i in range(len(part.heads)))
            lines.append(f"|{'|'.join(sides)}|")
            lines += [_row_markdown(row) for row in part.rows]
            return "\n".join(lines) + (f"\n\n{part.caption}" if part.caption else "")
        case Picture():
            words = [w for w in (part.caption, f"`{part.command}`" if part.command else "") if w]
            return f"![{part.alt}]({place(part)})" + (f"\n\n{' '.join(words)}" if words else "")
        case Listing():
            fence = "`" * max(3, 1 + max((len(m) for m in re.findall("`+", part.text)), default=0))
            return (
                f"<details><summary>{part.title}</summary>\n\n{fence}\n{part.text.rstrip()}\n"
                f"{fence}\n\n</details>"
            )


def _row_markdown(cells: Sequence[Any]) -> str:
    texts = (f"**{c.text}**" if isinstance(c, Badge) else str(c) for c in cells)
    return f"| {' | '.join(text.replace('|', chr(92) + '|') for text in texts)} |"
