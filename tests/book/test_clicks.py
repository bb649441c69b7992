"""Answers a few clicks from the front page: what is counted as a click, and that a lost answer is named."""

from tests.book.clicks import TASKS, check_tasks, clicks


def page(folder, name: str, article: str, around: str = "") -> None:
    path = folder / f"{name}.html"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"<nav>{around}</nav><article>{article}</article>", encoding="utf-8")


def test_folded_links_take_a_click_more_and_navigation_does_not_count(tmp_path):
    folded = "<details><summary>More</summary><a href='a/one.html#here'>1</a></details>"
    page(tmp_path, "index", folded + "<a href='https://elsewhere.invalid/'>x</a>", "<a href='b.html'>b</a>")
    page(tmp_path, "a/one", "<a href='../two.html'>2</a><a href='#here'>here</a>")
    page(tmp_path, "two", "<a href='b.html'>b</a>")
    page(tmp_path, "b", "")
    assert clicks(tmp_path) == {"index.html": 0, "a/one.html": 2, "two.html": 3}


def test_answers_that_are_far_or_gone_are_named(tmp_path):
    answers = [answer for some in TASKS.values() for answer in some]
    for name, place, words in answers:
        page(tmp_path, name.removesuffix(".html"), f"<h2 id='{place}'>{words}</h2>")
    page(tmp_path, "index", "".join(f"<a href='{name}'>there</a>" for name, *_ in answers))
    assert check_tasks(tmp_path) == []
    page(tmp_path, "index", "<a href='hub.html'>all</a>")
    page(tmp_path, "start/setting-up", "<h2 id='permissions'>Permissions</h2>")
    said = check_tasks(tmp_path)
    assert "“which tool”: guides/which-tool.html is more than 3 clicks from the front page" in said
    assert "“ERR_NVGPUCTRPERM”: start/setting-up.html#permissions does not say “ERR_NVGPUCTRPERM”" in said
