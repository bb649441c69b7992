"""Links of a built book that lead nowhere."""

from pathlib import Path

from labcode.book.links import broken_links


def book(folder: Path, body: str) -> Path:
    (folder / "part").mkdir()
    (folder / "_static").mkdir()
    (folder / "_static" / "a b.svg").touch()
    (folder / "_static" / "template.html").write_text('<a href="{{ link }}">x</a>', encoding="utf-8")
    (folder / "index.html").write_text('<h1 id="start">One</h1><h2 id="größe">Two</h2>', encoding="utf-8")
    (folder / "part" / "page.html").write_text(f'<p id="here">{body}</p>', encoding="utf-8")
    return folder


def test_links_that_lead_somewhere(tmp_path):
    body = """<a href="#here">1</a><a href="#">2</a><a href="../index.html">3</a>
    <a href="../index.html#start">4</a>
    <a href="../index.html?q=1#gr%C3%B6%C3%9Fe">5</a><img src="../_static/a%20b.svg"><a href="page.html">6</a>
    <a href="https://example.org/none#x">7</a><a href="//example.org">8</a>
    <img src="data:image/png;base64,AA==">
    <a href="mailto:me@example.org">9</a>"""
    assert broken_links(book(tmp_path, body)) == []


def test_each_link_that_leads_nowhere_is_named_once(tmp_path):
    body = """<a href="index.html">1</a><a href="index.html">again</a><a href="#there">2</a>
    <a href="../index.html#end">3</a><img src="../_static/gone.png">
    <a href="../../index.html">4</a><a href="../part">5</a>"""
    assert broken_links(book(tmp_path, body)) == [
        "part/page.html: link to index.html: no such file",
        "part/page.html: link to #there: no such place on that page",
        "part/page.html: link to ../index.html#end: no such place on that page",
        "part/page.html: link to ../_static/gone.png: no such file",
        "part/page.html: link to ../../index.html: outside of the book",
        "part/page.html: link to ../part: no such file",
    ]


def test_what_looks_like_a_tag_and_is_none_is_not_followed(tmp_path):
    body = """<!-- <a href="none"> --><script src='page.html'>let x = '<a href="none" id="x">';</script>
    <style>/* <a href="none"> */</style><iframe srcdoc="<a href='none'>"></iframe>
    <a title="a > b" href=page.html>1</a>
    <a href="../index.html?a=1&amp;b=2#start">2</a><A
    href='#x'>3</a>"""
    assert broken_links(book(tmp_path, body)) == ["part/page.html: link to #x: no such place on that page"]
