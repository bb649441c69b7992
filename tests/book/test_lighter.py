"""What pages load before anybody asks: scripts left out, pictures that wait until they are shown."""

from pathlib import Path

from labcode.book.sphinx.lighter import lazily, painted_first, svg_size, without_scripts


def test_scripts_are_left_out_by_name() -> None:
    rest = '<script src="b.js"></script><script>c()</script>'
    head = '<script defer src="../_static/a.js?digest=1"></script>\n' + rest
    assert without_scripts(head, "a.js") == rest
    assert without_scripts(head, "other.js") == head


def test_scripts_of_a_head_wait_for_the_text_in_their_order() -> None:
    options = '<script src="_static/documentation_options.js?v=1"></script>'
    ahead = '<link rel="preload" as="script" href="a.js" />\n'
    kept = '<script>let a = 1;</script><script defer src="d.js"></script><script async src="e.js"></script>'
    body = '</head><body><script src="b.js"></script></body>'
    holding = '<script src="b.js"></script>', '<script data-x="1" src="c.js"></script>'
    page = f"<head>{ahead}{options}{holding[0]}{kept}{holding[1]}{body}"
    wanted = f'<head>{options}<script defer="defer" src="b.js"></script>{kept}'
    assert painted_first(page) == f'{wanted}<script defer="defer" data-x="1" src="c.js"></script>{body}'
    assert painted_first('<script src="b.js"></script>') == '<script src="b.js"></script>'


def test_pictures_are_loaded_lazily_and_keep_their_place() -> None:
    dark = '<img alt="Bars." class="only-dark" src="../_images/b.svg" />'
    others = '<img src="../_images/photo.png" /><img src="https://example.org/_images.svg" />'
    page = lazily(dark + others, {"b.svg": (640, 360)}.get)
    assert page == dark.replace("<img", '<img loading="lazy" width="640" height="360"') + others
    assert lazily(dark, lambda name: None) == dark


def test_the_size_of_a_picture_is_that_of_its_view(tmp_path: Path) -> None:
    path = tmp_path / "a.svg"
    path.write_text('<?xml version="1.0"?>\n<svg width="6in" viewBox="0 0 432.4 216" height="3in"></svg>')
    assert svg_size(path) == (432, 216)
    path.write_text("<svg></svg>")
    assert svg_size(path) is None
