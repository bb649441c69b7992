// Terms: a link to an entry of the glossary that is pointed at, or reached with the tab key, shows the entry beside it.
// The entries come when one is asked for first; as a script, for a page that was opened from disk may load nothing else.
(() => {
  "use strict";
  const root = document.documentElement.dataset.content_root ?? "./";
  const LINKS = "main a:has(> .std-term)", ID = "lab-term-card";
  const SOON_MS = 200, AWAY_MS = 250, ROOM = 8;
  let entries = null, shown = null, timer = 0;

  const load = () => entries ??= new Promise((done, failed) => {
    window.labGlossary = done;
    const script = document.createElement("script");
    script.src = root + "glossary-cards.js";
    script.onerror = failed;
    document.head.append(script);
  });

  function make(tag, attributes, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  }

  function hide() {
    clearTimeout(timer);
    shown?.removeAttribute("aria-describedby");
    shown = null;
    document.getElementById(ID)?.remove();
  }

  async function show(link) {
    const found = await load().catch(() => ({}));
    const entry = found[decodeURIComponent(link.hash.slice(1))];
    if (!entry || timer !== link.labTimer) return;
    hide();
    const [term, text, light, dark, told] = entry;
    const card = make("div", { id: ID, role: "tooltip" }, make("strong", {}, term), make("p", {}, text));
    const picture = document.documentElement.dataset.theme === "dark" ? dark : light;
    if (picture) {
      const image = make("img", { alt: told, src: `${root}_images/${picture}` });
      image.addEventListener("load", () => place(card, link), { once: true });
      card.append(image);
    }
    card.addEventListener("pointerenter", () => clearTimeout(timer));
    card.addEventListener("pointerleave", leave);
    document.body.append(card);
    link.setAttribute("aria-describedby", ID);
    shown = link;
    place(card, link);
  }

  // Below the link where there is room, else above it.
  function place(card, link) {
    const box = link.getClientRects()[0], wide = document.documentElement.clientWidth;
    const left = Math.max(ROOM, Math.min(box.left, wide - card.offsetWidth - ROOM));
    const below = box.bottom + ROOM + card.offsetHeight <= innerHeight || box.top < card.offsetHeight + ROOM;
    card.style.left = `${left + scrollX}px`;
    card.style.top = `${scrollY + (below ? box.bottom + 4 : box.top - card.offsetHeight - 4)}px`;
  }

  function soon(link, wait) {
    clearTimeout(timer);
    if (link === shown) return;
    timer = link.labTimer = setTimeout(() => show(link), wait);
  }

  function leave() {
    clearTimeout(timer);
    timer = setTimeout(hide, AWAY_MS);
  }

  const linkOf = (event) => event.target.closest?.(LINKS);
  document.addEventListener("pointerover", (event) => {
    if (event.pointerType !== "touch" && linkOf(event)) soon(linkOf(event), SOON_MS);
  });
  document.addEventListener("pointerout", (event) => linkOf(event) && leave());
  document.addEventListener("focusin", (event) => linkOf(event)?.matches(":focus-visible") && soon(linkOf(event), 0));
  document.addEventListener("focusout", (event) => linkOf(event) && leave());
  document.addEventListener("keydown", (event) => event.key === "Escape" && hide());
})();
