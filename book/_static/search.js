// The search fields of the book: what is typed in, results below the field out.
// The index and the ranking come when a field is used first; as scripts, for a page that was opened from disk may load
// nothing else. Arrow keys choose, Enter opens, Escape closes the dialog.
(function () {
  "use strict";

  const root = document.documentElement.dataset.content_root ?? "./";
  const WAIT_MS = 60, MOST = 12;
  let loading = null;

  function script(path) {
    return new Promise((done, failed) => {
      const element = document.createElement("script");
      element.src = root + path;
      element.onload = done;
      element.onerror = () => failed(new Error(`${path} cannot be loaded`));
      document.head.append(element);
    });
  }

  // A promise of the function that searches.
  function load() {
    loading ??= (async () => {
      let data = null;
      window.labSearchIndex = (given) => (data = given);
      await Promise.all([script("_static/search-rank.js"), script("search-index.js")]);
      return window.labMakeSearch(data);
    })();
    return loading;
  }

  function make(tag, attributes, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  }

  function address(result) {
    return `${root}${result.page}.html${result.anchor ? "#" + result.anchor : ""}`;
  }

  function option(result, id) {
    const title = make("span", { class: "lab-search-title" }, result.title);
    if (result.heading) title.append(make("span", { class: "lab-search-heading" }, " › ", result.heading));
    const excerpt = make("span", { class: "lab-search-excerpt" });
    for (const [text, hit] of result.excerpt) excerpt.append(hit ? make("mark", {}, text) : text);
    return make("a", { role: "option", id, href: address(result), tabindex: "-1", "aria-selected": "false" }, title, excerpt);
  }

  function attach(form, number) {
    const input = form.querySelector("input[name=q]");
    const onPage = !form.closest("dialog");
    const id = `lab-search-${number}`;
    const list = make("div", { id, role: "listbox", "aria-label": "Results", class: "lab-search-results" });
    const status = make("p", { role: "status", class: "lab-search-status" });
    form.after(status, list);
    list.hidden = status.hidden = true;
    for (const [name, value] of Object.entries({
      role: "combobox", "aria-expanded": "false", "aria-controls": id, "aria-autocomplete": "list",
      placeholder: "Search the book", "aria-label": "Search the book", autocomplete: "off",
    })) input.setAttribute(name, value);
    let chosen = -1, timer = 0, shown = "";

    function say(text) {
      status.textContent = text;
      status.hidden = !text;
    }

    function choose(at, scroll = true) {
      const options = list.children;
      chosen = options.length ? (at + options.length) % options.length : -1;
      for (let i = 0; i < options.length; i++) options[i].setAttribute("aria-selected", String(i === chosen));
      if (chosen < 0) input.removeAttribute("aria-activedescendant");
      else input.setAttribute("aria-activedescendant", options[chosen].id);
      if (chosen >= 0 && scroll) options[chosen].scrollIntoView({ block: "nearest" });
    }

    async function show() {
      const question = input.value;
      if (!question.trim()) {
        list.replaceChildren();
        list.hidden = true;
        input.setAttribute("aria-expanded", "false");
        shown = "";
        say("");
        return choose(-1);
      }
      let search;
      if (!list.children.length) say("Searching …");
      try {
        search = await load();
      } catch (error) {
        loading = null;
        return say(`The search does not work: ${error.message}.`);
      }
      if (question !== input.value || question === shown) return; // typed on meanwhile
      shown = question;
      const results = search(question, MOST);
      list.replaceChildren(...results.map((result, i) => option(result, `${id}-${i}`)));
      list.hidden = !results.length;
      list.scrollTop = 0;
      input.setAttribute("aria-expanded", String(results.length > 0));
      say(results.length ? results.length === MOST ? `The first ${MOST} pages` : `${results.length} ${results.length === 1 ? "page" : "pages"}` : "No page has these words. Fewer words, or others, may find it.");
      choose(results.length ? 0 : -1, false);
      if (onPage) history.replaceState(null, "", `?q=${encodeURIComponent(question)}`);
    }

    input.addEventListener("focus", () => load().catch(() => (loading = null)), { once: true });
    input.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(show, WAIT_MS);
    });
    input.addEventListener("keydown", (event) => {
      if (event.key === "ArrowDown" || event.key === "ArrowUp") {
        if (!list.children.length) return;
        event.preventDefault();
        choose(chosen + (event.key === "ArrowDown" ? 1 : chosen < 0 ? 0 : -1));
      } else if (event.key === "Enter" && !event.isComposing) {
        event.preventDefault();
        clearTimeout(timer);
        show().then(() => list.children[chosen]?.click());
      }
    });
    list.addEventListener("click", (event) => {
      if (event.target.closest("a") && !(event.ctrlKey || event.metaKey || event.shiftKey)) form.closest("dialog")?.close();
    });
    if (onPage) {
      input.value = new URLSearchParams(location.search).get("q") ?? "";
      input.focus();
      show();
    }
  }

  const start = () => document.querySelectorAll("form.bd-search").forEach(attach);
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
